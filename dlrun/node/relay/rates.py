"""The rate from a node of a chain to another, measured with test data."""

import asyncio
import contextlib
import socket
import struct
import time
from typing import NamedTuple

from ..common.deadline import within
from ..common.errors import Damaged
from ..network import hosts, link as links
from .state import RelayState

PROBE_TIME = 0.15  # seconds of one measurement
SEND_TIMEOUT = 5.0  # seconds until the sender of test data gives up
ANSWER_TIMEOUT = 0.4  # seconds after which a node that is measured has no rate: it answers too late
_PIECE = bytes(256 << 10)


class Flow(NamedTuple):
    """Bytes/s of test data to a node, and of all that left this one meanwhile; 0 if the node does not answer in time."""

    test: float
    left: float


async def flow(state: RelayState, other: int) -> Flow:
    """Send test data to a node."""
    began, before = time.monotonic(), _total(state, "sent")
    with contextlib.suppress(OSError, Damaged, asyncio.TimeoutError):
        test = await within(ANSWER_TIMEOUT, _measured(state, other))
        # Read at the end of the test data, and compared over the same time: the copy sends in bursts.
        return Flow(test, test + (_total(state, "sent") - before) / (time.monotonic() - began))
    return Flow(0.0, 0.0)


async def _measured(state: RelayState, other: int) -> float:
    where = hosts.address(state.names[other])
    link = await links.connect(where, state.port, state.secret, state.introduction("probe"), state.dead_after)
    sending = asyncio.ensure_future(_send(link))
    try:
        answer, _ = await link.receive(state.dead_after)
    finally:
        sending.cancel()
        # What is still in its buffer would hold up the copy.
        link.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        link.close()
    return float(answer["bytes"] / max(answer["seconds"], PROBE_TIME / 2))


def _total(state: RelayState, counter: str) -> int:
    return 0 if state.prepared is None else state.prepared.task.board.total(counter)


async def _send(link: links.Link) -> None:
    """Send test data until the receiver has measured enough, and the connection is closed."""
    loop, end = asyncio.get_event_loop(), time.monotonic() + SEND_TIMEOUT
    with contextlib.suppress(OSError):
        while time.monotonic() < end:
            await loop.sock_sendall(link.socket, _PIECE)
        link.end()


async def answer(state: RelayState, link: links.Link) -> None:
    """Receive the test data of a measurement, and reply with its bytes and seconds."""
    timeout = state.dead_after
    loop = asyncio.get_event_loop()
    # Not from the connection on: data that was sent before may still be on its way.
    await within(timeout, loop.sock_recv(link.socket, len(_PIECE)))
    began, count, more, left = time.monotonic(), 0, 1, PROBE_TIME
    while more and left > 0:
        with contextlib.suppress(asyncio.TimeoutError):
            more = len(await within(left, loop.sock_recv(link.socket, len(_PIECE))))
            count += more
        left = began + PROBE_TIME - time.monotonic()
    await link.send({"bytes": count, "seconds": time.monotonic() - began})
    # Until the sender has the reply: a connection that is closed with data in it is reset, and the reply lost.
    while more:
        more = len(await within(timeout, loop.sock_recv(link.socket, len(_PIECE))))
    link.close()
