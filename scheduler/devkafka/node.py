"""One broker process: started, stopped, killed, suspended, resumed."""

import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scheduler.devkafka.errors import BrokerFailedError, PortTakenError
from scheduler.devkafka.jvm import Jvm, clean_environment
from scheduler.devkafka.ports import LOOPBACK, require_free
from scheduler.devkafka.process import ProcessIdentity
from scheduler.devkafka.settings import NodePorts
from scheduler.kafka.readiness import NotReadyError, wait_for_brokers

START_TIMEOUT_S = 60.0
"""Far more than a start takes (1 to 3 s), for machines that are busy with other things."""

STOP_PATIENCE_S = 15.0
_READ_LOG_BYTES = 100_000


@dataclass(frozen=True)
class NodeFiles:
    """The files of one node below its cluster's directory."""

    directory: Path

    @property
    def properties(self) -> Path:
        """Its server.properties."""
        return self.directory / "server.properties"

    @property
    def data(self) -> Path:
        """Its log.dirs."""
        return self.directory / "data"

    @property
    def scratch(self) -> Path:
        """Its java.io.tmpdir: the native libraries that it unpacks, which a killed JVM can't remove."""
        return self.directory / "tmp"

    @property
    def pid(self) -> Path:
        """The identity of its process, while one runs or was killed."""
        return self.directory / "pid.json"

    @property
    def log(self) -> Path:
        """What the broker printed, over all its starts."""
        return self.directory / "broker.log"


class Node:
    """A broker of a cluster on this machine.

    ``port`` is its client port on 127.0.0.1, ``bootstrap`` the same as host:port, ``log_path`` what it printed.
    ``behind`` is the port that a proxy before it forwards to, 0 without one.
    """

    def __init__(self, ports: NodePorts, files: NodeFiles, jvm: Jvm) -> None:
        self.id = ports.id
        self.port = ports.client
        self.behind = ports.behind
        self.bootstrap = f"{LOOPBACK}:{ports.client}"
        self.log_path = files.log
        self._ports = ports
        self._files = files
        self._jvm = jvm
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def pid(self) -> int | None:
        """The process id while the broker runs (or is suspended), else None."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self) -> None:
        """Start the broker on the data it had, and wait until it answers. Raises PortTakenError, BrokerFailedError."""
        self.spawn()
        self.wait_ready(
            lambda: wait_for_brokers(self.bootstrap, frozenset({self.id}), _deadline_s(), self.require_alive)
        )

    def stop(self) -> None:
        """End it as an operator would (SIGTERM): it hands over what it leads, then ends."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once (SIGKILL), as a crash would."""
        self._end(signal.SIGKILL)

    def suspend(self) -> None:
        """Freeze it (SIGSTOP): connections stay open, nothing is answered."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a suspended broker go on (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def spawn(self, flags: tuple[str, ...] = ()) -> None:
        """Start the process without waiting for an answer. ``flags`` are further ones for the JVM."""
        if self.pid is not None:
            return
        require_free(self._ports.client)
        require_free(self._ports.controller)
        scratch = self._empty_scratch()
        command = self._jvm.command(
            "kafka.Kafka", str(self._files.properties), flags=(f"-Djava.io.tmpdir={scratch}", *flags)
        )
        with self._files.log.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=clean_environment(),
                start_new_session=True,  # Ctrl-C in a terminal reaches us alone; we stop brokers last
            )
        identity = ProcessIdentity.of(self._process.pid)
        if identity is not None:
            identity.write(self._files.pid)

    def signal_stop(self) -> None:
        """Send SIGTERM and don't wait."""
        self._signal(signal.SIGTERM)

    def let_go(self) -> None:
        """Forget the process, which goes on without us."""
        if self._process is not None:
            self._process.returncode = 0  # else its end unseen by us would be reported as a leak
            self._process = None

    def require_alive(self) -> None:
        """Raise BrokerFailedError (PortTakenError if that was why) if the process has ended."""
        if self.pid is None:
            raise self._failure("ended while it was starting")

    def wait_ready(self, wait: Callable[[], None]) -> None:
        """Run ``wait``; if the deadline passes, end the process and say where its log is."""
        try:
            wait()
        except NotReadyError as error:
            self.kill()
            raise self._failure(f"did not answer within {START_TIMEOUT_S:.0f} s ({error})") from error

    def _empty_scratch(self) -> Path:
        """Clear what an earlier process of this node left."""
        scratch = self._files.scratch
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        return scratch

    def _failure(self, what: str) -> BrokerFailedError | PortTakenError:
        log = self._log_of_this_start()
        if "Address already in use" in log:
            return PortTakenError(
                f"another program took port {self._ports.client} or {self._ports.controller} while Kafka was starting; "
                "start again"
            )
        last = next((line for line in reversed(log.splitlines()) if "ERROR" in line or "FATAL" in line), "")
        why = f": {last.strip()[:300]}" if last else ""
        return BrokerFailedError(f"Kafka node {self.id} {what}; see {self._files.log}{why}")

    def _log_of_this_start(self) -> str:
        try:
            return self._files.log.read_bytes()[self._log_start :][-_READ_LOG_BYTES:].decode(errors="replace")
        except OSError:
            return ""

    def _signal(self, number: signal.Signals) -> None:
        if self.pid is not None:
            assert self._process is not None
            self._process.send_signal(number)

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        self._signal(number)
        self.resume()  # a suspended broker would see a SIGTERM only when continued
        try:
            self._process.wait(STOP_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
        self._files.pid.unlink(missing_ok=True)


def _deadline_s() -> float:
    return time.monotonic() + START_TIMEOUT_S
