"""The leader of a chain: announce the session, wait until all nodes are ready, read the source, announce the end."""

import asyncio
import contextlib
import math
import os
import time
import zlib
from collections import deque
from typing import Deque, Dict, List, NamedTuple, Optional, Set, Tuple

from ..blocks.hashing import hasher
from ..blocks.progress_board import SEEN
from ..common import text
from ..common.errors import Damaged, NodeError, NoSpace
from ..common.threads import in_thread
from ..source.manifest import Manifest
from ..transfer.local import source_failed
from . import rates, shapes
from .messages import JOINED, READY, Announcement, Report, Slow, demotion
from .state import RelayState

MUCH = 2.0  # ratio of the rates of two slow nodes from which on one is much slower
MAX_MOVED = 100  # nodes that move to the end: the first message of each connection, whose size is limited, has them all
LINK_RATE = 1.25e9  # bytes a second of a node's network, for the choice between chain and tree: 10 Gbit/s


async def lead(state: RelayState) -> None:
    """Lead from the current state of the chain: from the beginning, or in place of a leader that died."""
    state.leading = True
    if not state.session:
        await _begin(state)
    after = state.downstream
    await state.until(lambda: state.phase >= READY and all(n.settled >= READY for n in after.values()))
    cannot = state.status().cannot
    if cannot:
        why = "; ".join(why for _, why in sorted(cannot.items()))
        _abort(state, why, full=set(cannot) == set(state.status().full))
        return
    state.announce(Announcement({"do": "go"}))
    state.spawn(_move_slow_nodes(state))
    await state.until(lambda: state.workers is not None)
    try:
        # Even if a previous leader has announced the end: it may have died before it had sent all blocks.
        await read(state)
    except NodeError as fault:
        _abort(state, fault.message, fault.help or "")
        return
    # Before they publish, all nodes compare the hash of all hashes with the leader's. A leader without a copy of its own
    # has none, and shards differ from node to node.
    if state.prepared is not None and state.prepared.build is not None and not state.staging.shard:
        await state.until(lambda: state.digest is not None)
    state.announce(Announcement({"do": "final", "digest": state.digest if not state.staging.shard else None}))


async def _begin(state: RelayState) -> None:
    staging, after = state.staging, state.downstream
    # Without waiting: if another job has the lock, the leader reads the source and keeps no copy of its own.
    staging.try_lock()
    try:
        manifest = await in_thread(lambda: staging.find(whole=True))
    except NodeError as fault:
        _abort(state, fault.message, fault.help or "")
        return
    # After the walk, during which nodes start: now the smallest room and the common hash functions of all are known.
    await state.until(lambda: all(n.settled >= JOINED for n in after.values()))
    room = state.status().room
    if room is not None:
        try:
            manifest = await in_thread(lambda: staging.fit(manifest, room))
        except NoSpace as fault:
            _abort(state, fault.message, fault.help or "", full=True)
            return
    staging.hasher = hasher(_hash(state))
    if not staging.shard:
        await in_thread(lambda: staging.plan_delta(manifest, relayed=len(state.names) > 1))
    shape = staging.given.shape
    if shape == "auto":
        shape = shapes.choose(len(state.names), manifest.size(), LINK_RATE)
    session = {
        "do": "session",
        "id": os.urandom(16).hex(),
        "hash": staging.hasher.name,
        "workers": staging.worker_count,
        "shape": shape,
    }
    state.manifest = manifest
    state.announce(Announcement(session, await in_thread(lambda: zlib.compress(_plain(manifest), 1))))


def _plain(manifest: Manifest) -> bytes:
    """The packed manifest without hashes: nodes get those with the blocks."""
    digests, size = manifest.digests, manifest.digest_size
    manifest.digests, manifest.digest_size = b"", 0
    try:
        return manifest.pack()
    finally:
        manifest.digests, manifest.digest_size = digests, size


def _hash(state: RelayState) -> str:
    """The hash function of the session: as given, or for `auto` the best that all nodes have."""
    asked = state.staging.given.hash
    return state.status().hashes[0] if asked == "auto" else hasher(asked).name


async def _move_slow_nodes(state: RelayState) -> None:
    """Announce the slow nodes that nodes report, so that they move to the end; until all nodes are done.

    Also after everything is read: all of a small data set can be on its way before the first node is found slow.
    """
    measured: Set[Tuple[int, int]] = set()
    while not state.done and not state.outcome.done():
        # What was measured before the last move says nothing.
        found = {node: one for node, one in state.status().slow.items() if one.moves == len(state.demoted)}
        # A node is never moved behind a much slower one: it would get its data at the rate of that one, and perhaps it was
        # slow only for a second.
        most = min((rate for _, (rate, _) in state.moves()), default=math.inf) * MUCH
        slow = [node for node in state.order() if node in found and found[node].rate <= most]
        slow = [node for node in slow if node not in state.lost and node not in state.demoted]
        if slow and len(state.demoted) < MAX_MOVED:
            # The last of them: the nodes before it may only have waited for it.
            node = slow[-1]
            rate, others, moves, times = found[node]
            moved: Dict[int, Tuple[float, float]] = {}
            if times >= AGREE[moves > 0] / 2 and (node, moves) not in measured:
                # The nodes that would be found slow one after the other are all slow now: they move together.
                measured.add((node, moves))
                moved = await rates.slow_nodes(state, slow, rate)
            if not moved and times >= AGREE[moves > 0]:
                moved = {node: (rate, others)}
            _move(state, moved)
        await asyncio.sleep(CHECK_INTERVAL)


def _move(state: RelayState, moved: Dict[int, Tuple[float, float]]) -> None:
    """Announce that nodes move to the end of the chain, the slowest last; moved: bytes/s to each, and without it."""
    progress, entries = state.staging.progress, sorted(moved.items(), key=lambda entry: -entry[1][0])
    for node, (rate, others) in entries:
        host = state.names[node]
        progress.log("node {} is slow and now comes last: {}/s to it".format(host, text.size(rate)))
        progress.event("slow", node=node, host=host, rate=round(rate), others=round(others))
    if entries:
        state.announce(demotion(entries))


def _abort(state: RelayState, why: str, help: str = "", full: bool = False) -> None:
    """Announce the end of the session to all nodes; `full`: the only reason is lack of space."""
    state.announce(Announcement({"do": "abort", "why": why, "help": help or None, "full": full}))


async def read(state: RelayState) -> None:
    """Read all blocks that a node needs and this one has not seen; NodeError for a source that fails or has changed."""
    workers, prepared = state.workers, state.prepared
    if workers is None or prepared is None or state.reading_began:
        return
    state.reading_began = True
    worker_count = len(workers.channels)
    # A new leader first stops receiving, and waits until every worker has: a block that arrives later would be read twice,
    # or counted as seen while a part of it is missing.
    workers.send_all({"do": "stop-receiving"})
    await state.until(lambda: state.worker_events.count("stopped-receiving") >= worker_count)
    board, blocks = prepared.task.board, len(prepared.task.blocks)
    seen, wanted = board.plane(SEEN), state.need().to_bytes(blocks, "little")
    left = [number for number in range(blocks) if wanted[number] and not seen[number]]
    remote = state.staging.remote
    if left and remote:
        await in_thread(lambda: remote.download_as_substitute(prepared.task.manifest, state.staging.progress))
    state.tokens.distribute(prepared.task, left)
    workers.send_all({"do": "read"})
    await state.until(lambda: state.worker_events.count("read") >= worker_count)
    if state.faults:
        raise source_failed(state.faults)


# Find the nodes that slow down the chain during the copy, and move them to the end.
#
# A link is slow if the sender waits to send while the receiver waits for data. To find the slow end, the sender sends test
# data to the nodes after the receiver, and at the end of the chain to the node before itself: if one of them is faster, the
# receiver is slow; if none is, the sender itself may be, and the node before it measures in the same way.

CHECK_INTERVAL = 0.1  # seconds between two checks
WINDOW = 0.5  # seconds over which waiting times are averaged
MIN_WAIT = 0.6  # part of the time that both ends of a link must wait for it to be slow
GAIN = 1.5  # ratio of the rates without and with a node from which on it is slow
# Measurements in a row that must find a link slow, as long as no node has moved to the end and afterwards: at full speed
# both ends of every link wait at times, and one measurement may compare a burst with a pause. After a move the links that
# waited before become quicker only in two or three seconds. All nodes are measured together after half as many.
AGREE = (2, 4)
RISE = 1.25  # ratio of two rates one after the other from which on a link is becoming quicker
REACH = 2  # nodes after the next one to which it sends test data: the first may be slower still
# Seconds until a link that was not found slow is measured again: one that is slower than it can be, and any.
RETRY_AFTER, LONGEST_PAUSE = 1.0, 20.0


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
        if not faster or (self._found and sent > RISE * max(self._found)):
            self._found.clear()
        if faster:
            # The next measurement has a `WINDOW` of its own.
            self._found.append(sent)
            self._samples.clear()
            state.slow[node], state.suspect = Slow(sent, most, moves, len(self._found)), False
            state.signal.notify()
        else:
            state.slow.pop(node, None)
        if len(self._found) >= AGREE[moves > 0]:
            # The leader may leave it where it is.
            self._found.clear()
            self._measured, self._possible = time.monotonic(), 0.0
        elif not faster:
            self._measured, self._possible = time.monotonic(), max(most, sent) if most else math.inf
            if waits and not state.leading:
                state.suspect = True
                state.signal.notify()

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
        return (await rates.flows(self._state, [other])).left
