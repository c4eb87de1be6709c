"""Topic names with and without the configured prefix."""


class Names:
    """Adds and takes away one prefix. The full names are kept, since every produced record asks for one."""

    def __init__(self, prefix: str) -> None:
        """Take the prefix, for example `jobs.`; it may be empty."""
        self.prefix = prefix
        self._full: dict[str, str] = {}

    def full(self, name: str) -> str:
        """Return the broker's name of one of our topics: `changelog` → `jobs.changelog`."""
        found = self._full.get(name)
        if found is None:
            found = self._full[name] = self.prefix + name
        return found

    def bare(self, full: str) -> str:
        """Return our name of a topic; a topic that is not ours keeps its name."""
        return full.removeprefix(self.prefix)
