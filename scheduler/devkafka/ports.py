"""Ports on the loopback interface."""

import errno
import os
import random
import socket

from scheduler.devkafka.errors import PortTakenError

LOOPBACK = "127.0.0.1"

_LOWEST, _HIGHEST = 20_000, 32_000
"""Below the range from which systems take the client ends of connections (Linux from 32768, others from 49152).

A port from there could be taken by any outgoing connection while its broker is being restarted.
"""


def is_free(port: int) -> bool:
    """Can a server listen on ``port`` of 127.0.0.1 now?"""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            if error.errno == errno.EACCES:
                raise PortTakenError(
                    f"port {port} may not be used by this account; choose one above 1023"
                ) from error
            return False
    return True


def require_free(port: int) -> None:
    """Raise PortTakenError, with what to do, if something listens on ``port``."""
    if not is_free(port):
        raise PortTakenError(
            f"port {port} of {LOOPBACK} is taken by another program; stop that program, or choose another port, "
            f"for example with --port {port + 100}"
        )


def free_ports(count: int) -> list[int]:
    """``count`` different ports on which nothing listens now.

    Random, so that runs that start at the same moment hardly ever choose the same ones.
    """
    chance = random.Random(os.urandom(8))
    found: list[int] = []
    for port in chance.sample(range(_LOWEST, _HIGHEST), _HIGHEST - _LOWEST):
        if is_free(port):
            found.append(port)
        if len(found) == count:
            return found
    raise PortTakenError(f"no {count} free ports between {_LOWEST} and {_HIGHEST}; stop some programs")
