"""Ports for what tests start: not among those that the kernel gives to connections of others meanwhile."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket

_NEXT = itertools.count(os.getpid() * 37)
"""Where each process of tests looks next."""


def free_port(*addresses: str, block: int = 1) -> int:
    """The first of so many neighbouring ports that nobody has on these addresses, by default on this machine's own."""
    while True:
        first = 10000 + next(_NEXT) * block % 10000
        with contextlib.suppress(OSError), contextlib.ExitStack() as held:
            for address, port in itertools.product(addresses or ("127.0.0.1",), range(first, first + block)):
                held.enter_context(socket.create_server((address, port)))
            return first
