"""`./scripts/model`: search the model of the lease protocol, and tell for every rule what goes wrong without it."""

import argparse
import time
from collections.abc import Iterable

from tests.model import bounds, runs
from tests.model.model import Model
from tests.model.rules import NAMES, RULES, Rules
from tests.model.runs import Run
from tests.model.search import Result, search
from tests.model.trace import told

NOTHING = "nothing goes wrong"


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    given = parser().parse_args(arguments)
    if given.rules:
        return show_rules()
    if given.off or given.bounds:
        run = runs.without(tuple(given.off))
        return show_one(run._replace(bounds=run.bounds.but(**dict(given.bounds))))
    return show_deep() if given.deep else show_all()


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser("scripts/model", description=__doc__, allow_abbrev=False)
    made.add_argument(
        "--off",
        metavar="RULE",
        action="append",
        default=[],
        choices=NAMES,
        help="search without this rule and show the steps to what goes wrong; may be given again",
    )
    made.add_argument("--rules", action="store_true", help="list the rules and where they stand")
    made.add_argument(
        "--deep", action="store_true", help="all rules on in larger worlds: hours, and gigabytes"
    )
    made.add_argument(
        "bounds",
        metavar="BOUND=NUMBER",
        nargs="*",
        type=checked,
        help=f"how large a world: {', '.join(bounds.NAMES)}",
    )
    return made


def checked(text: str) -> tuple[str, int]:
    """Parse a bound; say what is wrong with it."""
    try:
        return bounds.bound(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


# -- one search ----------------------------------------------------------------------------------------


def found(run: Run) -> tuple[Model, Result, float]:
    """Search, and say how many seconds of a core it took."""
    model = Model(Rules(run.off), run.bounds)
    began = time.process_time()
    result = search(model, liveness=run.needs_liveness)
    return model, result, time.process_time() - began


def show_one(run: Run) -> int:
    """Search once and show the steps to a violation. A violation is no failure if a rule is off."""
    print(f"off: {', '.join(run.off) or 'nothing'}; bounds: {run.bounds}")
    model, result, seconds = found(run._replace(finds=""))
    if result.violated:
        print("\n".join(told(model, result)))
    print(f"{verdict(result)}; {result.states:,} states, {seconds:.1f} s")
    return 1 if result.violated and not run.off else 0


def verdict(result: Result) -> str:
    """Say in words what a search found."""
    return f"{result.violated}, {result.steps} steps" if result.violated else NOTHING


# -- tables --------------------------------------------------------------------------------------------


def show_all() -> int:
    """Search everything that is expected of small worlds; return 1 if some search went otherwise."""
    good = show("All rules on", runs.ALL_ON)
    good &= show("All rules on, an assumption not kept", runs.BEYOND)
    good &= show("One rule off", runs.BROKEN)
    good &= show("One rule off, harmless by itself", runs.HARMLESS)
    good &= show("Two rules off, the first harmless by itself", runs.PAIRS)
    show_kept()
    return 0 if good else 1


def show_deep() -> int:
    """Search larger worlds with all rules on."""
    return 0 if show("All rules on", runs.DEEP) else 1


def show(title: str, searches: Iterable[Run]) -> bool:
    """Search one after the other and print a line of each; return whether all went as expected."""
    print(f"\n{title:<54} {'':<64} {'states':>9} {'s':>6}")
    good = [show_line(run) for run in searches]
    return all(good)


def show_line(run: Run) -> bool:
    """Search, and print what came of it."""
    model, result, seconds = found(run)
    told_of = run.about or ", ".join(run.off)
    print(f"  {told_of:<52} {verdict(result):<64} {result.states:>9,} {seconds:>6.1f}", flush=True)
    if result.violated == run.finds:
        return True
    print(f"      UNEXPECTED, should be: {run.finds or NOTHING} (bounds: {run.bounds})")
    if result.violated:
        print("\n".join(f"      {line}" for line in told(model, result)))
    return False


def show_kept() -> None:
    """Say of rules that nothing depends on why they are kept."""
    print("\nWhy the harmless ones are rules all the same")
    for rule in RULES:
        if rule.kept_for:
            print(f"  {rule.name:<52} {rule.kept_for}")


def show_rules() -> int:
    """List the rules."""
    for rule in RULES:
        print(f"{rule.name}\n    {rule.says}.")
        if rule.kept_for:
            print(f"    Nothing goes wrong without it; it is kept because {rule.kept_for}.")
        print(f"    docs/DESIGN.md, {rule.section}; {', '.join(rule.places)}")
    return 0
