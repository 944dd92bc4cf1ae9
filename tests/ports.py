"""Ports for what tests start: not among those that the kernel gives to connections of others meanwhile."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import socket
import tempfile
from pathlib import Path

_NEXT = itertools.count(os.getpid() * 37)
"""Where each process of tests looks next."""
_HELD = Path(tempfile.gettempdir(), f"dlrun-test-ports-{os.getuid()}").open("ab")  # noqa: SIM115 - until this process ends
"""The file of which each process of tests locks one byte for each of its ports: they are bound later, by other programs."""


def free_port(*addresses: str, block: int = 1) -> int:
    """The first of so many neighbouring ports that nobody has on these addresses, by default on this machine's own.

    No other process of tests gets any of them as long as this one runs.
    """
    while True:
        first = 10000 + next(_NEXT) * block % 10000
        with contextlib.suppress(OSError), contextlib.ExitStack() as held:
            for address, port in itertools.product(addresses or ("127.0.0.1",), range(first, first + block)):
                held.enter_context(socket.create_server((address, port)))
            fcntl.lockf(_HELD, fcntl.LOCK_EX | fcntl.LOCK_NB, block, first)
            return first
