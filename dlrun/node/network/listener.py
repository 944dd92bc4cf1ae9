"""A port of the job on a network with untrusted users: it accepts only callers that prove that they know the job's secret.

Other users cannot block it: a failed `accept` is retried, the whole authentication has one timeout, and at most 64
connections may be unauthenticated. A further one replaces the oldest connection of the address that has the most.
"""

import asyncio
import contextlib
import socket
from collections import Counter
from typing import Callable, Dict, Optional

from ..common.deadline import within
from ..common.errors import Damaged
from . import link as links

MAX_PENDING = 64  # unauthenticated connections
AUTHENTICATION_TIMEOUT = 5.0  # seconds from the connection to the end of authentication
RETRY_DELAY = 0.05  # seconds until the next `accept` after one that failed (no descriptor or memory)


class Listener:
    """Accepts on a listening socket until it is closed."""

    def __init__(self, listener: socket.socket, secret: bytes) -> None:
        self._socket, self._secret = listener, secret
        self._pending: "Dict[asyncio.Future[None], str]" = {}
        listener.setblocking(False)

    async def serve(self, on_connection: Callable[[links.Link], None]) -> None:
        """Pass each authenticated connection to `on_connection`, which must not block."""
        loop = asyncio.get_event_loop()
        while self._socket.fileno() >= 0:
            try:
                connection, address = await loop.sock_accept(self._socket)
            except OSError:
                await asyncio.sleep(RETRY_DELAY)
                continue
            self._make_room()
            pending = asyncio.ensure_future(self._authenticate(connection, on_connection))
            self._pending[pending] = str(address[0])
            pending.add_done_callback(self._forget)
            # Under a flood `accept` never waits: without this, the tasks of replaced connections could not close them.
            await asyncio.sleep(0)

    def _make_room(self) -> None:
        if len(self._pending) >= MAX_PENDING:
            most = Counter(self._pending.values()).most_common(1)[0][0]
            oldest = next(pending for pending, address in self._pending.items() if address == most)
            del self._pending[oldest]
            oldest.cancel()

    async def _authenticate(
        self, connection: socket.socket, on_connection: Callable[[links.Link], None]
    ) -> None:
        link: Optional[links.Link] = None
        # The caller is not of this job, or a node that has given up.
        with contextlib.suppress(OSError, Damaged, asyncio.TimeoutError):
            link = await within(AUTHENTICATION_TIMEOUT, links.accept(connection, self._secret))
        if link is not None:
            on_connection(link)

    def _forget(self, pending: "asyncio.Future[None]") -> None:
        self._pending.pop(pending, None)
        if not pending.cancelled():
            # Retrieved so that asyncio does not log it: invalid data from another program does not affect the job.
            pending.exception()

    def close(self) -> None:
        """Stop accepting, and close the unauthenticated connections."""
        for pending in list(self._pending):
            pending.cancel()
        if self._socket.fileno() >= 0:
            asyncio.get_event_loop().remove_reader(self._socket)
            self._socket.close()
