"""How fast a shard's state comes back from its changelog: from nothing, from an old disk, from the own one."""

import time
from collections.abc import Mapping
from pathlib import Path

from scheduler.bench.changelogs import ground_of, write
from scheduler.bench.lives import lives
from scheduler.bench.site import Site, site
from scheduler.core.settings import Settings
from scheduler.dispatcher.config import Config
from scheduler.dispatcher.real import MachineClock
from scheduler.dispatcher.restoring import Restorer
from scheduler.dispatcher.retired import Retired
from scheduler.dispatcher.standbys import NoStandbys
from scheduler.kafka.changelog import KafkaChangelog
from scheduler.storage.rocks import RocksStores


def restore(properties: Mapping[str, str], records: int) -> dict[str, float]:
    """Write `records` to eight changelogs, as jobs that come, run and end leave them, and restore all shards.

    *Old disk* holds the first half, as the disk of one who lost the shards long ago; *own disk* holds everything.
    """
    with site(properties) as place:
        write(place, lives(place.shards, records // 2, 0))
        stores = place.folder / "stores"
        _restored(place, stores)
        write(place, lives(place.shards, records - records // 2, records // 2))
        old_s = _restored(place, stores)
        own_s = _restored(place, stores)
        empty_s = _restored(place, place.folder / "empty")
    return {
        "records": records,
        "empty_disk_s": round(empty_s, 3),
        "empty_disk_records_per_s": round(records / empty_s),
        "old_disk_s": round(old_s, 3),
        "old_disk_records_per_s": round((records - records // 2) / old_s),
        "own_disk_s": round(own_s, 3),
    }


def _restored(place: Site, directory: Path) -> float:
    """Restore all shards as a dispatcher does, without its turns between; return the seconds from open to closed."""
    ground = ground_of(place)
    slice_ms = Config(ground, Settings()).restore_slice_ms
    changelog = KafkaChangelog(place.properties, prefix=place.prefix)
    restorer = Restorer(
        ground, RocksStores(directory), changelog, MachineClock().mono_ms, NoStandbys(), Retired()
    )
    began = time.monotonic()
    for shard in range(place.shards):
        restorer.begin(shard, _now_ms(), None)
    while restorer.running():
        for done in restorer.slice(slice_ms, _now_ms()):
            done.store.close()
    took_s = time.monotonic() - began
    changelog.close()
    return took_s


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
