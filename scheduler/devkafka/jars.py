"""The jars of Apache Kafka: a given folder of them, or fetched once from an artifact repository."""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from scheduler.devkafka.errors import NoJarsError

KAFKA_VERSION = "4.4.0"

_KAFKA = f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}"
_LOGGER = "org.slf4j:slf4j-simple"
_CLOSED_NETWORK = (
    "set JOBS_DEV_MAVEN_REPOSITORY to the address of a Maven repository that you can reach, or JOBS_DEV_KAFKA_JARS to "
    f"the 'libs' folder of an unpacked Kafka {KAFKA_VERSION}"
)


def class_path(say: Callable[[str], None]) -> tuple[Path, ...]:
    """Kafka's jars, sorted by name. Fetched the first time (45 MB, about 20 s), then found on disk.

    ``JOBS_DEV_KAFKA_JARS`` names a folder that holds them; ``JOBS_DEV_MAVEN_REPOSITORY`` an artifact repository to
    ask instead of the public one. jgo's own settings (``~/.config/jgo.conf``, ``M2_REPO``) are honoured too.
    Raises NoJarsError.
    """
    folder = os.environ.get("JOBS_DEV_KAFKA_JARS")
    return _from_folder(Path(folder).expanduser()) if folder else _fetched(say)


def _from_folder(folder: Path) -> tuple[Path, ...]:
    if not any(folder.glob("kafka_2.13-*.jar")):
        raise NoJarsError(
            f"JOBS_DEV_KAFKA_JARS={folder} holds no kafka_2.13-{KAFKA_VERSION}.jar; "
            f"point it at the 'libs' folder of an unpacked Kafka {KAFKA_VERSION}"
        )
    return tuple(sorted(path.absolute() for path in folder.glob("*.jar")))


def _fetched(say: Callable[[str], None]) -> tuple[Path, ...]:
    try:
        from jgo.config import GlobalSettings
    except ImportError as error:
        raise NoJarsError(
            "Kafka's jars can't be fetched without jgo; install it with: pip install 'kafka-scheduler[dev]'"
        ) from error
    settings = GlobalSettings.load()
    if not any((settings.cache_dir / "envs" / "org" / "apache" / "kafka" / "kafka_2.13").glob("*")):
        say(f"fetching Apache Kafka {KAFKA_VERSION} (once, 45 MB)")
    repositories = _repositories(settings.repositories)
    kafka = _build(_KAFKA, repositories)
    return tuple(sorted({*kafka, *_simple_logger(kafka, repositories)}))


def _repositories(configured: Mapping[str, str]) -> dict[str, str]:
    repositories = dict(configured)
    own = os.environ.get("JOBS_DEV_MAVEN_REPOSITORY")
    if own:
        repositories["central"] = own.rstrip("/")  # takes the place of the public one
    return repositories


def _build(coordinate: str, repositories: dict[str, str]) -> list[Path]:
    """One coordinate alone: with a second in the same call jgo settles on other versions of Kafka's own jars.

    ``all_jars``, since ``classpath`` leaves the jars out that are modules.
    """
    import jgo

    try:
        return [Path(jar) for jar in jgo.build(coordinate, repositories=repositories).all_jars]
    except (OSError, RuntimeError, ValueError) as error:
        asked = repositories.get("central", "the public Maven repository")
        raise NoJarsError(
            f"{coordinate} can't be had from {asked}; {_CLOSED_NETWORK} ({_short(error)})"
        ) from error


def _simple_logger(kafka: list[Path], repositories: dict[str, str]) -> list[Path]:
    """Kafka's jars log to nowhere without a backend. It is a convenience: without it the broker runs, mute."""
    api = next((match for jar in kafka if (match := re.fullmatch(r"slf4j-api-(.+)\.jar", jar.name))), None)
    if api is None:
        return []
    try:
        jars = _build(f"{_LOGGER}:{api[1]}", repositories)
    except NoJarsError:
        return []
    return [jar for jar in jars if jar.name.startswith("slf4j-simple-")]


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:160]}"
