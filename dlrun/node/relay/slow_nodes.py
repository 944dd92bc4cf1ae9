"""Find a node that slows down the chain during the copy, and move it to the end.

A link is slow if the sender waits to send while the receiver waits for data. To find the slow end, the sender sends test
data to the node after the receiver: if that is faster, the receiver is slow; if not, the sender itself may be, and the
node before it measures in the same way.
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

CHECK_INTERVAL = 0.1  # seconds between two checks
WINDOW = 0.5  # seconds over which waiting times are averaged
MIN_WAIT = 0.6  # part of the time that both ends of a link must wait for it to be slow
GAIN = 1.5  # ratio of the rates without and with a node from which on it is slow
PROBE_TIME, PROBE_BYTES = 0.2, 4 << 30  # of one measurement
RETRY_AFTER = 5.0  # seconds until a node that was not found slow is measured again
SEND_TIMEOUT = 5.0  # seconds for one piece of test data
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
        self._suspected_once = -1  # the node that the last measurement found to be slow
        self._retry_at: Dict[int, float] = {}

    async def watch(self) -> None:
        """Check the next node until all nodes are done, also after this node's own copy is."""
        state = self._state
        await state.until(lambda: state.announced("go") is not None and state.workers is not None)
        if state.staging.shard or state.session["shape"] != "chain":
            # With shards nothing is forwarded, and in a tree a node sends to two nodes.
            return
        self._samples.append(self._sample())
        while not state.done and not state.outcome.done():
            await asyncio.sleep(CHECK_INTERVAL)
            node = self._next_node()
            if node is not None:
                with contextlib.suppress(OSError, Damaged):
                    await self._check_link(node)

    def _next_node(self) -> Optional[int]:
        """The node that this one sends to; None if there is none or it is known to be slow."""
        state = self._state
        nodes = [
            node for node, found in state.downstream.items() if not found.gone and node not in state.demoted
        ]
        if len(nodes) != 1:
            return None
        if nodes[0] != self._node:
            if self._node >= 0:
                self._samples.clear()
            self._node, state.suspect = nodes[0], False
        return nodes[0]

    async def _check_link(self, node: int) -> None:
        state, now, samples = self._state, self._sample(), self._samples
        samples.append(now)
        while len(samples) > 2 and now.time - samples[1].time >= WINDOW:
            samples.popleft()
        elapsed = now.time - samples[0].time
        if elapsed < WINDOW:
            return
        sent, received, held = ((n - b) / elapsed for n, b in zip(now[1:], samples[0][1:]))
        self._received = max(self._received, received)
        # Both ends must wait: if only the sender waits, the cause may be a slow disk; if only the receiver, a slow source.
        report, suspected = self._report(node), state.downstream[node].status.suspect
        waits = report is not None and report.starving > MIN_WAIT
        if (
            held < MIN_WAIT
            or not (waits or suspected)
            or node in state.slow
            or now.time < self._retry_at.get(node, 0.0)
        ):
            return
        following = state.following(node)
        # The last one: it is slow if this node has received more than it can pass on.
        if following is None:
            if self._is_confirmed(node, self._received > GAIN * sent):
                self._add_slow(node, sent, self._received)
            return
        # The measurement itself uses the link, so it is made only after some time of waiting, and not repeated soon.
        passed = await self._rate_without(following)
        faster = passed > GAIN * sent
        if self._is_confirmed(node, faster):
            self._add_slow(node, sent, passed)
        elif not faster:
            self._retry_at[node] = time.monotonic() + RETRY_AFTER
            if waits and not state.leading:
                state.suspect = True
                state.signal.notify()

    def _is_confirmed(self, node: int, faster: bool) -> bool:
        """Whether a node was found to be slow twice in a row, each time over a `WINDOW` of its own.

        At full speed both ends of every link wait at times, and one measurement may compare a burst with a pause: a good
        node would be moved to the end.
        """
        suspected = self._suspected_once == node
        self._suspected_once = node if faster else -1
        if faster:
            self._samples.clear()
        return faster and suspected

    def _add_slow(self, node: int, rate: float, others: float) -> None:
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

    async def _rate_without(self, following: int) -> float:
        """Bytes/s that leave this node while it sends test data to the node after the next."""
        state = self._state
        where = hosts.address(state.names[following])
        link = await links.connect(
            where, state.port, state.secret, state.introduction("probe"), state.dead_after
        )
        try:
            before = self._sample()
            await _send(link)
            answer, _ = await link.receive(state.dead_after)
            # Read at the end of the test data, and compared over the same time: the copy sends in bursts.
            after = self._sample()
        finally:
            link.close()
        # The copy continues over the slow link during the measurement: this node can send both amounts together.
        passed = (after.sent - before.sent) / (after.time - before.time)
        return passed + float(answer["bytes"] / max(answer["seconds"], PROBE_TIME / 2))


async def _send(link: links.Link) -> None:
    loop, end, sent = asyncio.get_event_loop(), time.monotonic() + PROBE_TIME, 0
    while time.monotonic() < end and sent < PROBE_BYTES:
        await within(SEND_TIMEOUT, loop.sock_sendall(link.socket, _PIECE))
        sent += len(_PIECE)
    link.end()


async def answer(link: links.Link, timeout: float) -> None:
    """Receive the test data of a measurement, and reply with its bytes and seconds."""
    loop = asyncio.get_event_loop()
    began, count, more = 0.0, 0, True
    end = time.monotonic() + 2 * SEND_TIMEOUT
    while more and time.monotonic() < end:
        data = await within(timeout, loop.sock_recv(link.socket, 1 << 20))
        if not count:
            began = time.monotonic()
        count, more = count + len(data), bool(data)
    await link.send({"bytes": count, "seconds": time.monotonic() - began})
    link.close()
