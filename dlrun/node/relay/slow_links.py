"""Each node finds out whether the link to the next one slows down the copy; the leader moves slow nodes to the end.

A link is slow if the sender waits to send while the receiver waits for data. To find the slow end, the sender sends test data
to the nodes after the receiver, and at the end of the chain to the node before itself: if one of them is faster, the receiver
is slow, and so are those in between that two measurements find slow; if none is, the sender itself may be, and the node
before it measures in the same way.
"""

import asyncio
import contextlib
import math
import time
from collections import deque
from typing import Deque, Dict, List, NamedTuple, Optional

from ..blocks.progress_board import DONE as HERE
from ..common.errors import Damaged
from . import rates
from .messages import Report, Slow
from .state import RelayState

MUCH = 2.0  # ratio of two rates from which on one is much lower
CHECK_INTERVAL = 0.1  # seconds between two checks
WINDOW = 0.5  # seconds over which waiting times are averaged
MIN_WAIT = 0.6  # part of the time that both ends of a link must wait for it to be slow
GAIN = 1.5  # ratio of the rates without and with a node from which on it is slow
# Measurements in a row that must find a link slow, as long as no node has moved to the end and afterwards: at full speed
# both ends of every link wait at times, and one measurement may compare a burst with a pause. After a move the links that
# waited before become quicker only in two or three seconds. Fewer are enough where the copy itself was much faster.
AGREE = (2, 4)
PROOF = 2.5  # ratio of the rate at which data came or left to that of a link from which on one measurement is enough
RISE = 1.25  # ratio of two rates one after the other from which on a link is becoming quicker
REACH = 3  # nodes after the next one to which it sends test data: the first may be slower still
# Seconds until a link that was not found slow is measured again: one that is slower than it can be, and any.
RETRY_AFTER, LONGEST_PAUSE = 1.0, 20.0
PATIENCE = 5.0  # seconds with one order of nodes until a link is measured that is only a little slower than it can be


class _Sample(NamedTuple):
    """Counters at a time: bytes sent and received, seconds waited to send; and of the next node, bytes received and its time."""

    time: float
    sent: int
    received: int
    held: float
    there: int
    there_time: float


class _Past(NamedTuple):
    """Bytes a second without the next node; and those to nodes after it that are slow, too."""

    most: float
    slow: Dict[int, float]


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
        self._possible = 0.0  # bytes a second that this node could send then
        self._best = 0.0  # the most bytes a second that arrived here or left
        self._began = 0.0  # time since which this order holds

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
            node
            for node, downstream in state.downstream.items()
            if not downstream.gone and node not in state.demoted
        ]
        if len(nodes) != 1:
            return None
        # What was measured in the old order says nothing: a node before the slow one may have looked slow, too.
        if (nodes[0], len(state.demoted)) != (self._node, self._moves):
            if self._node >= 0:
                self._samples.clear()
            self._found.clear()
            self._node, self._moves, self._began = nodes[0], len(state.demoted), time.monotonic()
            self._measured, self._possible = -math.inf, 0.0
            state.suspect = False
        return nodes[0]

    async def _check_link(self, node: int) -> None:
        state, moves, sent = self._state, self._moves, self._waiting_rate(node)
        if sent is None or not self._worth_measuring(sent):
            return
        most, others = await self._most_past(node, sent)
        # It may have received the last of its data meanwhile.
        if moves != len(state.demoted) or not self._waits(node):
            return
        faster = most > GAIN * sent
        if not faster or (self._found and sent > RISE * max(self._found)):
            self._found.clear()
        if faster:
            # A link that became quicker meanwhile is not proved to be slow.
            sent = max(sent, self._arrived_since(self._samples[0]), 1.0)
            ratio = self._known() / sent
            weight = AGREE[moves > 0] // (1 if ratio > PROOF else 2) if ratio > MUCH else 1
            # The next measurement has a window of its own.
            self._found.append(sent)
            self._samples.clear()
            self._note({**others, node: sent}, most, weight)
            state.suspect = False
            state.signal.notify()
        else:
            state.slow.pop(node, None)
        if len(self._found) >= AGREE[moves > 0]:
            # The leader may leave it where it is.
            self._found.clear()
            self._measured, self._possible = time.monotonic(), 0.0
        elif not faster:
            self._measured, self._possible = time.monotonic(), max(most, sent) if most else math.inf
            if self._starves(node) and not state.leading:
                state.suspect = True
                state.signal.notify()

    def _note(self, slow: Dict[int, float], most: float, weight: int) -> None:
        """Note nodes that a measurement found slow; how often in a row counts for each of them."""
        state, first = self._state, len(self._found) == 1
        before = {
            node: measurement for node, measurement in state.slow.items() if measurement.by == state.index
        }
        for node in before.keys() - slow.keys():
            del state.slow[node]
        for node, rate in slow.items():
            old = before.get(node)
            times = old.times if old is not None and old.moves == self._moves and not first else 0
            state.slow[node] = Slow(rate, most, self._moves, times + weight, state.index)

    def _waiting_rate(self, node: int) -> Optional[float]:
        """Bytes/s to the next node over the last window, if both ends of the link have waited; else None."""
        now, samples = self._sample(), self._samples
        # The first report of a node that has just become the next one is still to come; or the times of two reports have
        # different beginnings, since the copy began in between: the rate between them would be too high.
        if samples and (not samples[0].there_time or now.there_time < samples[-1].there_time):
            samples.clear()
        samples.append(now)
        while len(samples) > 2 and now.time - samples[1].time >= WINDOW:
            samples.popleft()
        first = samples[0]
        elapsed, there = now.time - first.time, now.there_time - first.there_time
        if elapsed < (WINDOW / 2 if self._found else WINDOW) or there < WINDOW / 4:
            return None
        # What was sent may still be in buffers.
        sent = min((now.sent - first.sent) / elapsed, (now.there - first.there) / there)
        self._best = max(self._best, (now.received - first.received) / elapsed, sent)
        # Both ends must wait: if only the sender waits, the cause may be a slow disk; if only the receiver, a slow source.
        return sent if (now.held - first.held) / elapsed >= MIN_WAIT and self._waits(node) else None

    def _arrived_since(self, first: _Sample) -> float:
        """Bytes/s that have arrived at the next node since a sample."""
        now = self._sample()
        return (now.there - first.there) / max(now.there_time - first.there_time, CHECK_INTERVAL)

    def _waits(self, node: int) -> bool:
        return self._starves(node) or self._state.downstream[node].status.suspect

    def _starves(self, node: int) -> bool:
        report = self._report(node)
        return report is not None and report.starving > MIN_WAIT

    def _known(self) -> float:
        """The most bytes/s that data came here or left; at the first node, where none comes, also past a slow node."""
        past = [others for _, (_, others) in self._state.moves()] if self._state.leading else []
        return max([self._best, *past])

    def _worth_measuring(self, sent: float) -> bool:
        """Whether a link that carries `sent` bytes/s may be slow; test data disturbs the copy, so it is not sent often."""
        state, now, known = self._state, time.monotonic(), self._known()
        proved = known > MUCH * sent
        pause = RETRY_AFTER if proved or GAIN * sent < self._possible else LONGEST_PAUSE
        if now < self._measured + pause:
            return False
        if known > GAIN * sent:
            return proved or now > self._began + PATIENCE
        # In a chain without a slow node all links are full. Where none is known to be quicker, the next node waits for
        # this one only if this one has data to send; only the first node always has.
        if state.leading:
            return not self._moves
        return not self._all_here() and state.report().starving < MIN_WAIT / 2

    def _report(self, node: int) -> Optional[Report]:
        return self._state.downstream[node].status.reports.get(node)

    def _sample(self) -> _Sample:
        now, prepared = time.monotonic(), self._state.prepared
        report = self._report(self._node) if self._node in self._state.downstream else None
        received, seconds = (report.received, report.seconds) if report else (0, 0.0)
        if prepared is None:
            return _Sample(time=now, sent=0, received=0, held=0.0, there=received, there_time=seconds)
        board = prepared.task.board
        return _Sample(
            time=now,
            sent=board.total("sent"),
            received=board.total("received"),
            held=board.total("held") / (1e9 * board.worker_count),
            there=received,
            there_time=seconds,
        )

    async def _most_past(self, node: int, rate: float) -> _Past:
        """What test data to the nodes after the next one, or to the one before this, shows."""
        state = self._state
        others: List[int] = []
        further = state.following(node)
        while further is not None and further not in state.demoted and len(others) < REACH:
            others.append(further)
            further = state.following(further)
        # At the end of the chain all may be slow.
        if len(others) < REACH:
            others += [before for before in state.upstream_path[-1:] if before not in state.demoted]
        most, passed = 0.0, {}  # type: float, Dict[int, float]
        for other in others:
            test, left = await rates.flow(state, other)
            if test > GAIN * rate:
                # A lost packet can stall test data: the nodes before this one are measured for a second time.
                both = {
                    node: max(slow, (await rates.flow(state, node)).test) for node, slow in passed.items()
                }
                return _Past(test, {node: slow for node, slow in both.items() if MUCH * slow < test})
            most = max(most, min(left, rate + test))
            # 0: its program did not answer, and may only have waited for a core.
            if test:
                passed[other] = test
        return _Past(most, {})

    def _all_here(self) -> bool:
        prepared = self._state.prepared
        return prepared is not None and not prepared.task.board.plane(HERE).count(0)
