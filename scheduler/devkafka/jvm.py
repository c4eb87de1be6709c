"""How Kafka's Java programs are called here."""

import os
from dataclasses import dataclass
from pathlib import Path

from scheduler.devkafka.java import Java

_SMALL_AND_QUICK = (
    "-Xmx384m",
    # On two cores the quick compiler is no penalty in short runs; the thorough one takes a core while it compiles.
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
)
_LOGS = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS",
)
_UNSAFE_WARNS_FROM = 23


@dataclass(frozen=True)
class Jvm:
    """A Java with Kafka's jars, and the class archive that makes it start in half the time, if there is one."""

    java: Java
    class_path: tuple[Path, ...]
    archive: Path | None = None

    def command(self, main_class: str, *arguments: str, flags: tuple[str, ...] = ()) -> list[str]:
        """The command line of one of Kafka's programs."""
        return [
            str(self.java.executable),
            *_SMALL_AND_QUICK,
            *_LOGS,
            *self._hushed(),
            *self._shared(),
            *flags,
            "-cp",
            os.pathsep.join(map(str, self.class_path)),
            main_class,
            *arguments,
        ]

    def _hushed(self) -> tuple[str, ...]:
        """Kafka's use of sun.misc.Unsafe is known; its warning would head every log."""
        return ("--sun-misc-unsafe-memory-access=allow",) if self.java.major >= _UNSAFE_WARNS_FROM else ()

    def _shared(self) -> tuple[str, ...]:
        """``auto``: an archive that does not fit is passed over without a word."""
        return (
            (f"-XX:SharedArchiveFile={self.archive}", "-Xshare:auto", "-Xlog:disable") if self.archive else ()
        )


def clean_environment() -> dict[str, str]:
    """This process's environment without what would change how a Java starts."""
    hidden = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "CLASSPATH")
    return {name: value for name, value in os.environ.items() if name not in hidden}
