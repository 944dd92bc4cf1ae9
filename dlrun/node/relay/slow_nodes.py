"""Find the nodes that slow down the chain during the copy, and move them to the end.

A link is slow if the sender waits to send while the receiver waits for data. To find the slow end, the sender sends test
data to the nodes after the receiver, and at the end of the chain to the node before itself: if one of them is faster, the
receiver is slow; if none is, the sender itself may be, and the node before it measures in the same way.
"""

import asyncio
import contextlib
import math
import socket
import struct
import time
from collections import deque
from typing import Deque, List, NamedTuple, Optional

from ..common.deadline import within
from ..common.errors import Damaged
from ..network import hosts
from ..network import link as links
from .messages import Report, Slow
from .state import RelayState

CHECK_INTERVAL = 0.1  # seconds between two checks
WINDOW = 0.5  # seconds over which waiting times are averaged
MIN_WAIT = 0.6  # part of the time that both ends of a link must wait for it to be slow
GAIN = 1.5  # ratio of the rates without and with a node from which on it is slow
# Measurements in a row that must find a link slow: as long as no node has moved to the end, and afterwards.
AT_FIRST, AFTER_MOVE = 2, 4
RISE = 1.25  # ratio of two rates one after the other from which on a link is becoming quicker
REACH = 2  # nodes after the next one to which it sends test data: the first may be slower still
PROBE_TIME = 0.15  # seconds of one measurement
# Seconds until a link that was not found slow is measured again: one that is slower than it can be, and any.
RETRY_AFTER, LONGEST_PAUSE = 1.0, 20.0
SEND_TIMEOUT = 5.0  # seconds until the sender of test data gives up
_PIECE = bytes(256 << 10)


class _Sample(NamedTuple):
    """Counters at a time: bytes sent, seconds waited to send."""

    time: float
    sent: int
    held: float


class SlowNodes:
    """Watches the next node; adds slow nodes to `state.slow`."""

    def __init__(self, state: RelayState) -> None:
        self._state = state
        self._samples: Deque[_Sample] = deque()
        self._node = -1  # whom it sends to
        self._moves = 0  # nodes that had moved to the end when the first sample was taken
        self._found: List[float] = []  # bytes a second to it when the last measurements found it slow
        self._measured = (
            -math.inf
        )  # time of the last measurement that did not find it slow, or found it so again
        self._possible = math.inf  # bytes a second that this node could send then

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
                with contextlib.suppress(OSError, Damaged, asyncio.TimeoutError):
                    await self._check_link(node)

    def _next_node(self) -> Optional[int]:
        """The node that this one sends to; None if there is none or it is known to be slow."""
        state = self._state
        nodes = [
            node for node, found in state.downstream.items() if not found.gone and node not in state.demoted
        ]
        if len(nodes) != 1:
            return None
        # What was measured in the old order says nothing: a node before the slow one may have looked slow, too.
        if (nodes[0], len(state.demoted)) != (self._node, self._moves):
            if self._node >= 0:
                self._samples.clear()
            self._found.clear()
            self._node, self._moves = nodes[0], len(state.demoted)
            self._measured, self._possible = -math.inf, math.inf
            state.suspect = False
        return nodes[0]

    async def _check_link(self, node: int) -> None:
        state, now, samples = self._state, self._sample(), self._samples
        samples.append(now)
        while len(samples) > 2 and now.time - samples[1].time >= WINDOW:
            samples.popleft()
        elapsed = now.time - samples[0].time
        if elapsed < WINDOW:
            return
        sent, held = (now.sent - samples[0].sent) / elapsed, (now.held - samples[0].held) / elapsed
        # Both ends must wait: if only the sender waits, the cause may be a slow disk; if only the receiver, a slow source.
        report, suspected = self._report(node), state.downstream[node].status.suspect
        waits = report is not None and report.starving > MIN_WAIT
        # The measurement itself uses the links, so it is made only after some time of waiting, and not repeated soon.
        pause = RETRY_AFTER if GAIN * sent < self._possible else LONGEST_PAUSE
        if held < MIN_WAIT or not (waits or suspected) or now.time < self._measured + pause:
            return
        moves, most = self._moves, await self._most_past(node, GAIN * sent)
        if moves != len(state.demoted):
            return
        faster = most > GAIN * sent
        if self._is_confirmed(sent, faster):
            state.slow[node], state.suspect = Slow(sent, most, moves), False
            state.signal.notify()
            # The leader may leave it where it is.
            self._found.clear()
            self._measured, self._possible = time.monotonic(), 0.0
        elif not faster:
            self._measured, self._possible = time.monotonic(), max(most, sent) if most else math.inf
            if waits and not state.leading:
                state.suspect = True
                state.signal.notify()

    def _is_confirmed(self, sent: float, faster: bool) -> bool:
        """Whether the next node was found to be slow several times in a row, each time over a `WINDOW` of its own.

        At full speed both ends of every link wait at times, and one measurement may compare a burst with a pause: a good
        node would be moved to the end. After a move the links that waited before become quicker only in two or three seconds.
        """
        if not faster or (self._found and sent > RISE * max(self._found)):
            self._found.clear()
        if not faster:
            return False
        self._found.append(sent)
        self._samples.clear()
        return len(self._found) >= (AFTER_MOVE if self._moves else AT_FIRST)

    def _report(self, node: int) -> Optional[Report]:
        return self._state.downstream[node].status.reports.get(node)

    def _sample(self) -> _Sample:
        prepared = self._state.prepared
        if prepared is None:
            return _Sample(time.monotonic(), 0, 0.0)
        board = prepared.task.board
        held = board.total("held") / (1e9 * board.worker_count)
        return _Sample(time.monotonic(), board.total("sent"), held)

    async def _most_past(self, node: int, enough: float) -> float:
        """The most bytes/s that leave this node while it sends test data to another node than the next; stops at `enough`."""
        state = self._state
        others: List[int] = []
        further = state.following(node)
        while further is not None and further not in state.demoted and len(others) < REACH:
            others.append(further)
            further = state.following(further)
        # At the end of the chain all may be slow.
        if len(others) < REACH:
            others += [before for before in state.upstream_path[-1:] if before not in state.demoted]
        most = 0.0
        for other in others:
            if most < enough:
                most = max(most, await self._rate_with(other))
        return most

    async def _rate_with(self, other: int) -> float:
        """Bytes/s that leave this node while it sends test data to another one than the next."""
        state = self._state
        where = hosts.address(state.names[other])
        link = await links.connect(
            where, state.port, state.secret, state.introduction("probe"), state.dead_after
        )
        before = self._sample()
        sending = asyncio.ensure_future(_send(link))
        try:
            answer, _ = await link.receive(state.dead_after)
            # Read at the end of the test data, and compared over the same time: the copy sends in bursts.
            after = self._sample()
        finally:
            sending.cancel()
            # What is still in its buffer would hold up the copy.
            link.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            link.close()
        # The copy continues over the slow link during the measurement: this node can send both amounts together.
        passed = (after.sent - before.sent) / (after.time - before.time)
        return passed + float(answer["bytes"] / max(answer["seconds"], PROBE_TIME / 2))


async def _send(link: links.Link) -> None:
    """Send test data until the receiver has measured enough, and the connection is closed."""
    loop, end = asyncio.get_event_loop(), time.monotonic() + SEND_TIMEOUT
    with contextlib.suppress(OSError):
        while time.monotonic() < end:
            await loop.sock_sendall(link.socket, _PIECE)
        link.end()


async def answer(link: links.Link, timeout: float) -> None:
    """Receive the test data of a measurement, and reply with its bytes and seconds."""
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
