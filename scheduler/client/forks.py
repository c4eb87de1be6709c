"""What must not happen to librdkafka objects in a forked child.

A child inherits the memory of its parent's producers but none of their threads. Using one blocks for ever, and so
does destroying one: its destructor joins threads that are not there. So the child keeps each of them alive on
purpose, and clients make new ones under the new process id.
"""

import ctypes
import os
from typing import Any, Final

_alive: Final[dict[int, Any]] = {}


def watch(handle: Any) -> None:
    """Keep `handle` from being destroyed in a forked child."""
    _alive[id(handle)] = handle


def unwatch(handle: Any) -> None:
    """Forget `handle`, which its process is about to destroy."""
    _alive.pop(id(handle), None)


def _keep_for_ever() -> None:
    # One extra reference that nobody gives back: not even the interpreter's end destroys the object.
    for handle in _alive.values():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle))
    _alive.clear()


os.register_at_fork(after_in_child=_keep_for_ever)
