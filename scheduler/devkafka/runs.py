"""The folder of one run beside a broker, a bench or the demo: what its processes keep and what they print."""

from scheduler.devkafka.owned_dir import OwnedDir
from scheduler.devkafka.state_dir import runs_dir


def run_dir() -> OwnedDir:
    """A new folder. Those of killed runs go first, with the processes that were noted in them."""
    return OwnedDir.throwaway(runs_dir(), "run")
