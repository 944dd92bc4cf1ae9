"""A port of the job on a network with untrusted users: it accepts only connections that prove the job's secret.

Other users can neither end nor fill it: a failed `accept` is tried again, authentication has one deadline as a whole,
and at most 64 connections may be unauthenticated. A further one replaces the oldest of the address with the most.
"""

import asyncio
import contextlib
import socket
from collections import Counter
from typing import Callable, Dict, Optional

from ..common.deadline import within
from ..common.errors import Damaged
from . import link as links

MOST = 64  # unauthenticated connections
PROOF_TIME = 5.0  # seconds from the connection to the end of authentication
PAUSE = 0.05  # seconds until the next `accept` after one that failed (no descriptor or memory)


class Listener:
    """Accepts on a listening socket until it is closed."""

    def __init__(self, listener: socket.socket, secret: bytes) -> None:
        self._socket, self._secret = listener, secret
        self._unproven: "Dict[asyncio.Future[None], str]" = {}
        listener.setblocking(False)

    async def serve(self, take: Callable[[links.Link], None]) -> None:
        """Pass each authenticated connection to `take`, which must not block."""
        loop = asyncio.get_event_loop()
        while self._socket.fileno() >= 0:
            try:
                connection, address = await loop.sock_accept(self._socket)
            except OSError:
                await asyncio.sleep(PAUSE)
                continue
            self._make_room()
            proof = asyncio.ensure_future(self._prove(connection, take))
            self._unproven[proof] = str(address[0])
            proof.add_done_callback(self._forget)
            await asyncio.sleep(0)  # under a flood `accept` never blocks: let replaced connections be closed

    def _make_room(self) -> None:
        if len(self._unproven) >= MOST:
            most = Counter(self._unproven.values()).most_common(1)[0][0]
            oldest = next(proof for proof, address in self._unproven.items() if address == most)
            del self._unproven[oldest]
            oldest.cancel()

    async def _prove(self, connection: socket.socket, take: Callable[[links.Link], None]) -> None:
        link: Optional[links.Link] = None
        with contextlib.suppress(
            OSError, Damaged, asyncio.TimeoutError
        ):  # a stranger, or a node that gave up
            link = await within(PROOF_TIME, links.answer(connection, self._secret))
        if link is not None:
            take(link)

    def _forget(self, proof: "asyncio.Future[None]") -> None:
        self._unproven.pop(proof, None)
        if not proof.cancelled():
            proof.exception()  # invalid data from another program does not affect the job

    def close(self) -> None:
        """Stop accepting, and close the unauthenticated connections."""
        for proof in list(self._unproven):
            proof.cancel()
        if self._socket.fileno() >= 0:
            asyncio.get_event_loop().remove_reader(self._socket)
            self._socket.close()
