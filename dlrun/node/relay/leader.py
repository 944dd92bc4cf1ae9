"""The leader of a chain: announce the session, wait until all nodes are ready, read the source, announce the end."""

import math
import os
import zlib
from typing import Dict, Tuple

from ..blocks.hashing import hasher
from ..blocks.progress_board import SEEN
from ..common import text
from ..common.errors import NodeError, NoSpace
from ..common.threads import in_thread
from ..source.manifest import Manifest
from ..staging import survey_source
from ..staging.survey_source import Survey
from ..transfer.local import source_failed
from . import shapes
from .messages import JOINED, READY, Announcement, demotion
from .slow_links import AGREE, CHECK_INTERVAL, MUCH
from .state import RelayState

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
        survey = await in_thread(lambda: survey_source.survey(staging, whole=True))
    except NodeError as fault:
        _abort(state, fault.message, fault.help or "")
        return
    # After the walk, during which nodes start: now the smallest room and the common hash functions of all are known.
    await state.until(lambda: all(n.settled >= JOINED for n in after.values()))
    status, asked = state.status(), staging.given.hash
    # As given, or for `auto` the best that all nodes have.
    staging.hasher = hasher(status.hashes[0] if asked == "auto" else asked)

    def planned() -> Survey:
        fitting = survey_source.fit(staging, survey_source.usable(staging, survey), status.room)
        relayed = len(state.names) > 1
        return fitting if staging.shard else survey_source.plan_delta(staging, fitting, relayed=relayed)

    try:
        surveyed = await in_thread(planned)
    except NodeError as fault:
        _abort(state, fault.message, fault.help or "", full=isinstance(fault, NoSpace))
        return
    shape = staging.given.shape
    if shape == "auto":
        shape = shapes.choose(len(state.names), surveyed.manifest.size(), LINK_RATE)
    session = {
        "do": "session",
        "id": os.urandom(16).hex(),
        "hash": staging.hasher.name,
        "workers": staging.worker_count,
        "shape": shape,
    }
    state.survey = surveyed
    packed = await in_thread(lambda: zlib.compress(_plain(surveyed.manifest), 1))
    state.announce(Announcement(session, packed))


def _plain(manifest: Manifest) -> bytes:
    """The packed manifest without hashes: nodes get those with the blocks."""
    digests, size = manifest.digests, manifest.digest_size
    manifest.digests, manifest.digest_size = b"", 0
    try:
        return manifest.pack()
    finally:
        manifest.digests, manifest.digest_size = digests, size


async def _move_slow_nodes(state: RelayState) -> None:
    """Announce the slow nodes that nodes report, so that they move to the end; until all nodes are done.

    Also after everything is read: all of a small data set can be on its way before the first node is found slow.
    """
    while not state.done and not state.outcome.done():
        # What was measured before the last move says nothing.
        measured = {
            node: measurement
            for node, measurement in state.status().slow.items()
            if measurement.moves == len(state.demoted)
        }
        # A node is never moved behind a much slower one: it would get its data at the rate of that one, and perhaps it was
        # slow only for a second.
        most = min((rate for _, (rate, _) in state.moves()), default=math.inf) * MUCH
        slow = [node for node in state.order() if node in measured and measured[node].rate <= most]
        slow = [node for node in slow if node not in state.lost and node not in state.demoted]
        slow = [node for node in slow if measured[node].times >= AGREE[measured[node].moves > 0]]
        if slow and len(state.demoted) < MAX_MOVED:
            # The last of them: the nodes before it may only have waited for it. With it those that its sender found, too.
            last = measured[slow[-1]]
            together = [node for node in slow if measured[node].by == last.by]
            _move(state, {node: (measured[node].rate, measured[node].others) for node in together})
        await state.signal.wait(CHECK_INTERVAL)


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
    if left and remote and not prepared.task.from_published:
        await in_thread(lambda: remote.download_as_substitute(prepared.task.manifest, state.staging.progress))
    state.tokens.distribute(prepared.task, left)
    workers.send_all({"do": "read"})
    await state.until(lambda: state.worker_events.count("read") >= worker_count)
    if state.faults:
        raise source_failed(state.faults)
