"""What is raised when something that must hold does not."""


class Violation(BaseException):
    """An invariant is broken. No `Exception`: what the engine or a codec catches must not swallow it."""

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant


def require(holds: object, invariant: str, text: str) -> None:
    if not holds:
        raise Violation(invariant, text)
