"""The rates between nodes of a chain, measured with test data, and the slow nodes that they show."""

import asyncio
import contextlib
import math
import socket
import struct
import time
from typing import Awaitable, Dict, Iterable, List, NamedTuple, Optional, Tuple, TypeVar

from ..common.deadline import within
from ..common.errors import Damaged
from ..network import hosts, link as links
from .state import RelayState

PROBE_TIME = 0.15  # seconds of one measurement
SEND_TIMEOUT = 5.0  # seconds until the sender of test data gives up
ANSWER_TIMEOUT = 0.4  # seconds after which a node that is measured counts as slow: it answers too late
TOGETHER = 64  # nodes that are measured together
MUCH = 2.0  # ratio of the rate of the good links to that of a slow one
MOST = 0.75  # part of the links of a slow node that must be slow
STEPS = (1, 2)  # each of them sends to the next node and the one after it
_PIECE = bytes(256 << 10)
_Rates = Dict[Tuple[int, int], float]  # (sender, receiver) -> bytes a second
_Result = TypeVar("_Result")


class _Flow(NamedTuple):
    """Test data to one node: when it began and ended, its bytes, and the bytes/s of all that arrived there meanwhile."""

    began: float
    ended: float
    bytes: int
    arrived: float


class Flows(NamedTuple):
    """Bytes/s, with the copy's, that leave this node, and that arrive at each of the others.

    0 at a node that does not answer in time, and 0 that leave if none does.
    """

    left: float
    arrived: List[float]


async def flows(state: RelayState, others: List[int]) -> Flows:
    """Send test data to nodes at the same time."""
    began, before = time.monotonic(), _total(state, "sent")
    found = await _all(_flow(state, other) for other in others)
    # Read at the end of the test data, and compared over the same time: the copy sends in bursts.
    copied = (_total(state, "sent") - before) / (time.monotonic() - began)
    answered = [flow for flow in found if flow is not None]
    arrived = [0.0 if flow is None else flow.arrived for flow in found]
    if not answered:
        return Flows(0.0, arrived)
    elapsed = max(flow.ended for flow in answered) - min(flow.began for flow in answered)
    return Flows(copied + sum(flow.bytes for flow in answered) / elapsed, arrived)


async def _all(parts: "Iterable[Awaitable[_Result]]") -> "List[_Result]":
    """The results of what runs at the same time, in its order."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        return [await task for task in tasks]
    finally:
        for task in tasks:
            task.cancel()


async def _flow(state: RelayState, other: int) -> Optional[_Flow]:
    with contextlib.suppress(OSError, Damaged, asyncio.TimeoutError):
        return await within(ANSWER_TIMEOUT, _measured(state, other))
    return None


async def _measured(state: RelayState, other: int) -> _Flow:
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
    now, seconds = time.monotonic(), max(answer["seconds"], PROBE_TIME / 2)
    return _Flow(now - seconds, now, answer["bytes"], answer["arrived"] / seconds)


def _total(state: RelayState, counter: str) -> int:
    return 0 if state.prepared is None else state.prepared.task.board.total(counter)


async def _send(link: links.Link) -> None:
    """Send test data until the receiver has measured enough, and the connection is closed."""
    loop, end = asyncio.get_event_loop(), time.monotonic() + SEND_TIMEOUT
    with contextlib.suppress(OSError):
        while time.monotonic() < end:
            await loop.sock_sendall(link.socket, _PIECE)
        link.end()


async def slow_nodes(state: RelayState, suspects: List[int], rate: float) -> Dict[int, Tuple[float, float]]:
    """The nodes whose links are nearer to `rate` bytes/s than to the good ones, with the rate of each and that of those.

    The leader asks `TOGETHER` nodes, the last suspect in their middle, to send test data to each other, all at the same
    time: a slow node makes each of its links slow, and all good links are quick, also where the copy waits for a slow node.
    """
    lost = state.status().lost
    order = [node for node in state.order() if node not in lost and node not in state.demoted]
    if suspects[-1] not in order:
        return {}
    first = max(0, order.index(suspects[-1]) - TOGETHER // 2)
    order = order[first : first + TOGETHER]
    steps = [step for step in STEPS if step < len(order)]

    async def asked(place: int) -> _Rates:
        node, others = order[place], [order[(place + step) % len(order)] for step in steps]
        with contextlib.suppress(OSError, Damaged, asyncio.TimeoutError):
            known = await within(ANSWER_TIMEOUT + PROBE_TIME, _ask(state, node, others))
            return {(node, other): rate for other, rate in zip(others, known)}
        # Its link to this node is slow.
        return {(node, state.index): 0.0}

    found: _Rates = {}
    for known in await _all(asked(place) for place in range(len(order))):
        found.update(known)
    if not found:
        return {}
    # The quickest tenth left out: some nodes may share a host.
    good = sorted(found.values())[(len(found) - 1) * 9 // 10]
    limit = min(math.sqrt(rate * good), good / MUCH)
    slow = [node for node in _common(found, limit, suspects) if node != state.index]
    # Where none of its links was measured in time, it is as slow as the one that was found first.
    return {node: (max(_slow(found, node, limit)) or limit / MUCH, good) for node in slow}


def _slow(found: _Rates, node: int, limit: float) -> List[float]:
    return [rate for link, rate in found.items() if node in link and rate < limit]


def _common(found: _Rates, limit: float, suspects: List[int]) -> List[int]:
    """The fewest nodes that all slow links have in common: each has two or more, and `MOST` of its links that are left.

    No answer at all proves nothing unless the node is suspected: its program may have waited for a core.
    """
    left = dict(found)
    nodes: List[int] = []
    while True:
        rates: Dict[int, List[float]] = {}
        for link, rate in left.items():
            for node in link:
                rates.setdefault(node, []).append(rate)
        slow = {node: [rate for rate in known if rate < limit] for node, known in rates.items()}
        parts = [(len(slow[node]) / len(known), len(slow[node]), node) for node, known in rates.items()]
        fit = [
            (part, count, node)
            for part, count, node in parts
            if part >= MOST and count > 1 and (node in suspects or any(slow[node]))
        ]
        if not fit:
            return nodes
        nodes.append(max(fit)[2])
        left = {link: rate for link, rate in left.items() if nodes[-1] not in link}


async def _ask(state: RelayState, node: int, others: List[int]) -> List[float]:
    """The rates from a node to others, in their order."""
    if node == state.index:
        return await _each(state, others)
    where = hosts.address(state.names[node])
    link = await links.connect(
        where, state.port, state.secret, state.introduction("measure"), state.dead_after
    )
    try:
        await link.send({"to": others})
        answer, _ = await link.receive(state.dead_after)
    finally:
        link.close()
    return list(answer["rates"])


async def _each(state: RelayState, others: List[int]) -> List[float]:
    """The rates of the links to other nodes: what both ends can carry."""
    measured = await flows(state, others)
    return [min(measured.left, rate) for rate in measured.arrived]


async def answer(state: RelayState, link: links.Link) -> None:
    """Receive the test data of a measurement, and reply with its bytes and seconds; or measure for the leader."""
    timeout = state.dead_after
    if link.peer["role"] == "measure":
        asked, _ = await link.receive(timeout)
        await link.send({"rates": await _each(state, asked["to"])})
        return
    loop = asyncio.get_event_loop()
    # Not from the connection on: data that was sent before may still be on its way.
    await within(timeout, loop.sock_recv(link.socket, len(_PIECE)))
    began, count, more, left = time.monotonic(), 0, 1, PROBE_TIME
    before = _total(state, "received") + state.tested
    while more and left > 0:
        with contextlib.suppress(asyncio.TimeoutError):
            more = len(await within(left, loop.sock_recv(link.socket, len(_PIECE))))
            count += more
            state.tested += more
        left = began + PROBE_TIME - time.monotonic()
    arrived = _total(state, "received") + state.tested - before
    await link.send({"bytes": count, "arrived": arrived, "seconds": time.monotonic() - began})
    # Until the sender has the reply: a connection that is closed with data in it is reset, and the reply lost.
    while more:
        more = len(await within(timeout, loop.sock_recv(link.socket, len(_PIECE))))
    link.close()
