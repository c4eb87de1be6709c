"""`python -m tests.chaos`: the command line of `scripts/chaos`."""

import argparse
import os
import signal
import sys

from tests.chaos.report import as_json, as_table
from tests.chaos.run import Chaos

QUIET_S = 120.0
"""So long without the end of a single job, and the run gives up: no pause of a healthy system is a third of it."""

RATE = 20.0


def main() -> int:
    """Run; return 0 if the verdict is clean."""
    asked = _arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what runs is stopped
    chaos = Chaos(seed=asked.seed, minutes=asked.minutes, brokers=asked.brokers, rate=asked.rate, say=_say)
    clean = False
    try:
        report = chaos.run(QUIET_S)
        clean = report.clean
        print(as_json(report) if asked.json else as_table(report))
        for failed in report.failed_faults:
            _say(f"could not be done as meant: {failed}")
        for name, how in report.ended_by_themselves.items():
            for words in how:
                _say(f"{name} ended by itself: {words}")
    finally:
        if not clean:
            _say(f"kept: {chaos.site.folder}")
        chaos.close(keep=not clean)
    return 0 if clean else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/chaos",
        description="Real faults on real processes and brokers, and a judge outside of them.",
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="how long faults go on")
    parser.add_argument(
        "--seed", type=int, default=int.from_bytes(os.urandom(3), "big"), help="of the schedule"
    )
    parser.add_argument("--brokers", type=int, default=1, choices=(1, 3))
    parser.add_argument("--rate", type=float, default=RATE, help="jobs submitted a second")
    parser.add_argument("--json", action="store_true", help="one object instead of the table")
    return parser.parse_args()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
