"""Other packages named `scheduler`: Python imports the first that it finds, and says little when that is not ours."""

from importlib.machinery import PathFinder
from pathlib import Path

import scheduler
from scheduler.cli import exits


def require_unhidden(directory: Path) -> None:
    """Raise exits.Failed if code that runs in ``directory`` would import a file there instead of this package.

    A folder named so does no harm unless it is a package itself.
    """
    spec = PathFinder.find_spec("scheduler", [str(directory)])
    if spec is None or spec.origin is None or Path(spec.origin).samefile(_ours()):
        return
    raise exits.Failed(
        f"{spec.origin} hides the package 'scheduler' from all code that runs in {directory}: "
        "give it another name, or start elsewhere"
    )


def require_whole() -> None:
    """Raise exits.Failed if another distribution was installed over this one: both have a package of this name."""
    if "App" in getattr(scheduler, "__all__", ()):
        return
    raise exits.Failed(
        f"{_ours()} is no longer that of kafka-scheduler: {_the_other()} was installed over it. "
        "Uninstall that, then install kafka-scheduler again"
    )


def _ours() -> str:
    assert scheduler.__file__ is not None
    return scheduler.__file__


def _the_other() -> str:
    from importlib.metadata import packages_distributions

    others = set(packages_distributions().get("scheduler", ())) - {"kafka-scheduler"}
    return f"the distribution {', '.join(sorted(others))}" if others else "another distribution"
