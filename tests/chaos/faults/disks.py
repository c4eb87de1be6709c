"""What befalls the local state of dispatchers."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.chaos.fleet import Member
from tests.chaos.world import World

FLIPPED: Final = 64


def wipe_state(world: World, chance: random.Random) -> None:
    """A dispatcher comes back on an empty disk."""
    _between_lives(world, world.a_dispatcher(chance), empty)


def corrupt_state(world: World, chance: random.Random) -> None:
    """A dispatcher comes back on a disk that has rotted."""
    _between_lives(world, world.a_dispatcher(chance), lambda state: rot(state, chance))


def stale_state(world: World, chance: random.Random) -> None:
    """A dispatcher comes back on the disk of an earlier life."""
    dispatcher = world.a_dispatcher(chance)
    assert dispatcher.state is not None
    old = dispatcher.state.with_name(f"{dispatcher.name}.old")
    with dispatcher.turn:
        dispatcher.stop()
        world.count("restarts")
        shutil.copytree(dispatcher.state, old)
        dispatcher.start()
        world.pause(chance.uniform(6, 14))
        dispatcher.kill()
        world.count("kills")
        empty(dispatcher.state)
        shutil.copytree(old, dispatcher.state, dirs_exist_ok=True)
        shutil.rmtree(old)
        world.count("disks")
        dispatcher.start()


def fill_disk(world: World, chance: random.Random) -> None:
    """The disk of a dispatcher is full while it goes on, while it is restarted, and for some seconds after."""
    dispatcher = world.fleet.small_disk
    assert dispatcher is not None
    assert dispatcher.state is not None
    filler = dispatcher.state / "filler"
    with dispatcher.turn:
        fill(filler)
        world.count("disks")
        try:
            world.pause(3)
            dispatcher.stop()
            world.count("restarts")
            dispatcher.start()
            world.pause(chance.uniform(4, 8))
        finally:
            filler.unlink()
        dispatcher.start()


def empty(folder: Path) -> None:
    """Remove what is in a folder; the folder itself may be where a disk is mounted."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def rot(state: Path, chance: random.Random) -> None:
    """Cut, flip or remove one file in each shard's store."""
    for shard in sorted(path for path in state.glob("shard-*") if path.is_dir()):
        files = sorted(path for path in shard.iterdir() if path.is_file() and path.name != "LOCK")
        if files:
            chance.choice(ROTS)(chance.choice(files), chance)


def fill(filler: Path) -> None:
    """Write until there is no room."""
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(64 * 1024))
        except OSError:
            return


def _cut(file: Path, chance: random.Random) -> None:
    with file.open("r+b") as opened:
        opened.truncate(chance.randrange(file.stat().st_size + 1))


def _flip(file: Path, chance: random.Random) -> None:
    raw = bytearray(file.read_bytes())
    for place in (chance.randrange(len(raw)) for _ in range(FLIPPED if raw else 0)):
        raw[place] ^= 0xFF
    file.write_bytes(raw)


def _remove(file: Path, chance: random.Random) -> None:
    file.unlink()


ROTS: Final[tuple[Callable[[Path, random.Random], None], ...]] = (_cut, _flip, _remove)


def _between_lives(world: World, dispatcher: Member, change: Callable[[Path], None]) -> None:
    assert dispatcher.state is not None
    with dispatcher.turn:
        dispatcher.stop()
        world.count("restarts")
        change(dispatcher.state)
        world.count("disks")
        dispatcher.start()
