"""A class archive (AppCDS): Java maps it instead of reading a thousand classes, and starts in half the time.

A static archive from a list of the classes that a broker loaded: it works on every Java from 17, also on one that
came without an archive of its own (the one from PyPI). A Java or machine that can't make or use one starts without.
"""

import contextlib
import fcntl
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from scheduler.devkafka.errors import DevKafkaError
from scheduler.devkafka.jvm import Jvm, clean_environment
from scheduler.devkafka.state_dir import archives_dir

_DUMP_TIMEOUT_S = 120.0
_KEPT = 3


def with_archive(jvm: Jvm, run_once: Callable[[tuple[str, ...]], None], say: Callable[[str], None]) -> Jvm:
    """``jvm`` with its archive, made now if it never was (about 10 s).

    ``run_once`` runs a broker to the end with the given JVM flags; it is how the classes become known.
    """
    directory = archives_dir()
    directory.mkdir(parents=True, exist_ok=True)
    archive = directory / f"{_key(jvm)}.jsa"
    failed = archive.with_suffix(".failed")
    if not archive.exists() and not failed.exists():
        with _maker(archive.with_suffix(".lock")):
            if not archive.exists() and not failed.exists():
                say("preparing Kafka to start faster (once, about 10 s)")
                _make(jvm, archive, failed, run_once)
    if not archive.exists():
        return jvm
    with contextlib.suppress(OSError):
        archive.touch()  # its last use decides which ones are dropped
    return replace(jvm, archive=archive)


def _key(jvm: Jvm) -> str:
    """An archive fits one Java and one list of unchanged jars."""
    digest = hashlib.sha256(f"{jvm.java.executable}\n{jvm.java.version}\n".encode())
    for jar in jvm.class_path:
        status = jar.stat()
        digest.update(f"{jar} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def _make(jvm: Jvm, archive: Path, failed: Path, run_once: Callable[[tuple[str, ...]], None]) -> None:
    with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
        classes, new = Path(scratch) / "classes", Path(scratch) / "new.jsa"
        try:
            run_once((f"-XX:DumpLoadedClassList={classes}",))
            _dump(jvm, classes, new)
            new.replace(archive)
        except (DevKafkaError, OSError, subprocess.SubprocessError) as error:
            failed.write_text(f"{error}\n")  # so that not every start tries again
    for old in sorted(archive.parent.glob("*.jsa"), key=lambda path: path.stat().st_mtime)[:-_KEPT]:
        old.unlink(missing_ok=True)


def _dump(jvm: Jvm, classes: Path, new: Path) -> None:
    flags = (
        "-Xshare:dump",
        f"-XX:SharedClassListFile={classes}",
        f"-XX:SharedArchiveFile={new}",
        "-Xlog:disable",
    )
    subprocess.run(
        jvm.command("kafka.Kafka", flags=flags),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=_DUMP_TIMEOUT_S,
        check=True,
        env=clean_environment(),
    )


@contextlib.contextmanager
def _maker(lock: Path) -> Iterator[None]:
    """One process makes it; others that start at the same time wait for it."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
        lock.unlink(missing_ok=True)
