"""Find a node that slows down the chain during the copy, and move it to the end.

A link is slow if the sender waits to send while the receiver waits for data. To find which end is slow, the sender sends
to the node after the receiver for a moment: if that is faster, the receiver is slow; if not, the sender itself may be,
and the node before it measures in the same way.
"""

import asyncio
import contextlib
import time
from collections import deque
from typing import Deque, Dict, NamedTuple, Optional

from ..common.deadline import within
from ..common.errors import Damaged
from ..network import hosts
from ..network import link as links
from .messages import Report
from .state import RelayState

LOOK = 0.1  # seconds between two checks
SPAN = 0.5  # seconds over which waiting times are averaged
WAITS = 0.6  # part of the time that both ends of a link must wait for it to be slow
GAIN = 1.5  # ratio of the rates without and with a node from which on it is slow
PROBE_TIME, PROBE_BYTES = 0.2, 4 << 30  # of one measurement
PATIENCE = 5.0  # seconds until a node that was not found slow is measured again
_PIECE = bytes(256 << 10)


class _Sample(NamedTuple):
    """Counters at a time: bytes sent and received, seconds waited to send."""

    time: float
    sent: int
    received: int
    held: float


class SlowNodes:
    """Watches the next node; adds slow nodes to `state.slow`, with (bytes/s to it, bytes/s without it)."""

    def __init__(self, state: RelayState) -> None:
        self._state = state
        self._samples: Deque[_Sample] = deque()
        self._node = -1  # whom it sends to
        self._received = 0.0  # bytes a second that this node has received at most
        self._once = -1  # the node that the last measurement found to be slow
        self._tried: Dict[int, float] = {}

    async def watch(self) -> None:
        """Check the next node until all nodes are done, also after this node's own copy is."""
        state = self._state
        await state.until(lambda: state.announced("go") is not None and state.workers is not None)
        if state.staging.part or state.session["shape"] != "chain":
            return  # nothing is passed on, or every node sends to two
        self._samples.append(self._sample())
        while not state.done and not state.outcome.done():
            await asyncio.sleep(LOOK)
            node = self._after()
            if node is not None:
                with contextlib.suppress(OSError, Damaged):
                    await self._judge(node)

    def _after(self) -> Optional[int]:
        """The node that this one sends to; None if there is none or it is known to be slow."""
        state = self._state
        nodes = [
            node for node, found in state.downstream.items() if not found.gone and node not in state.behind
        ]
        if len(nodes) != 1:
            return None
        if nodes[0] != self._node:
            if self._node >= 0:
                self._samples.clear()
            self._node, state.suspect = nodes[0], False
        return nodes[0]

    async def _judge(self, node: int) -> None:
        state, now, samples = self._state, self._sample(), self._samples
        samples.append(now)
        while len(samples) > 2 and now.time - samples[1].time >= SPAN:
            samples.popleft()
        elapsed = now.time - samples[0].time
        if elapsed < SPAN:
            return
        sent, received, held = ((n - b) / elapsed for n, b in zip(now[1:], samples[0][1:]))
        self._received = max(self._received, received)
        # Both ends must wait: a sender alone may wait for a slow disk, a receiver alone for a slow source.
        report, accused = self._report(node), state.downstream[node].status.suspect
        waits = report is not None and report.starving > WAITS
        if (
            held < WAITS
            or not (waits or accused)
            or node in state.slow
            or now.time < self._tried.get(node, 0.0)
        ):
            return
        following = state.following(node)
        if following is None:  # the last one: it is slow if this node has received more than it can pass on
            if self._twice(node, self._received > GAIN * sent):
                self._found(node, sent, self._received)
            return
        # The measurement takes a moment of the link itself, so it is made only after the waiting has lasted, and not
        # again soon.
        passed = await self._without(following)
        faster = passed > GAIN * sent
        if self._twice(node, faster):
            self._found(node, sent, passed)
        elif not faster:
            self._tried[node] = time.monotonic() + PATIENCE
            if waits and not state.leading:
                state.suspect = True
                state.signal.notify()

    def _twice(self, node: int, faster: bool) -> bool:
        """Whether a node was found to be slow twice in a row, each time over a `SPAN` of its own.

        At full speed both ends of every link wait, and one measurement may compare a burst with a pause: a good node would
        then be moved behind the slow one.
        """
        accused = self._once == node
        self._once = node if faster else -1
        if faster:
            self._samples.clear()
        return faster and accused

    def _found(self, node: int, rate: float, others: float) -> None:
        self._state.slow[node], self._state.suspect = (rate, others), False
        self._state.signal.notify()

    def _report(self, node: int) -> Optional[Report]:
        return self._state.downstream[node].status.reports.get(node)

    def _sample(self) -> _Sample:
        prepared = self._state.prepared
        if prepared is None:
            return _Sample(time.monotonic(), 0, 0, 0.0)
        board = prepared.task.board
        held = board.total("held") / (1e9 * board.worker_count)
        return _Sample(time.monotonic(), board.total("sent"), board.total("received"), held)

    async def _without(self, following: int) -> float:
        """Bytes/s that leave this node while it sends test data to the node after the next."""
        state = self._state
        where = hosts.address(state.names[following])
        link = await links.call(
            where, state.port, state.secret, state.introduction("probe"), state.dead_after
        )
        try:
            before = self._sample()
            await _send(link)
            answer, _ = await link.receive(state.dead_after)
            after = self._sample()  # over the same time as the test data: what is sent comes in lumps
        finally:
            link.close()
        # Both count: the copy continues over the slow link during the measurement.
        passed = (after.sent - before.sent) / (after.time - before.time)
        return passed + float(answer["bytes"] / max(answer["seconds"], PROBE_TIME / 2))


async def _send(link: links.Link) -> None:
    loop, end, sent = asyncio.get_event_loop(), time.monotonic() + PROBE_TIME, 0
    while time.monotonic() < end and sent < PROBE_BYTES:
        await within(PATIENCE, loop.sock_sendall(link.socket, _PIECE))
        sent += len(_PIECE)
    link.end()


async def answer(link: links.Link, patience: float) -> None:
    """Receive the test data of a measurement, and reply with its bytes and seconds."""
    loop = asyncio.get_event_loop()
    began, count, more = 0.0, 0, True
    end = time.monotonic() + 2 * PATIENCE
    while more and time.monotonic() < end:
        data = await within(patience, loop.sock_recv(link.socket, 1 << 20))
        if not count:
            began = time.monotonic()
        count, more = count + len(data), bool(data)
    await link.send({"bytes": count, "seconds": time.monotonic() - began})
    link.close()
