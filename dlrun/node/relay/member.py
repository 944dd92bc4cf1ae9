"""One node of a chain: the steps from the session to the published set.

The previous node announces the session; this node prepares, reports that it is ready, copies the arriving blocks, and
publishes the set. Its data is in `state`; `leader`, `upstream` and `downstream` are its roles and connections.
"""

import asyncio
import hashlib
import time
from typing import Any, Dict, List, NamedTuple, Optional

from ..blocks.hashing import hasher
from ..blocks.progress_board import DONE as HERE
from ..common import text
from ..common.errors import Damaged, NodeError, NoSpace
from ..common.progress import Totals
from ..common.threads import in_thread
from ..network.wire import session_key
from ..source.subset import shard_of
from ..staging import copying, publishing, survey_source
from ..staging.request import Staging
from ..staging.survey_source import Survey
from ..transfer.local import disk_failed
from ..transfer.task import COPY, RELAY, PreparedSet
from ..transfer.workers import Workers
from . import leader, shapes
from .downstream import LEAVE_TIMEOUT, Downstream
from .messages import DONE, READY, slowest
from .slow_links import SlowNodes
from .state import RelayState
from .upstream import Upstream

REPORT_INTERVAL = 0.02  # seconds between checks of the progress board
LAST_BOARD_INTERVAL = 0.002  # the same while only the last blocks are missing
LAST_BLOCKS = 4  # blocks that count as the last ones
LOCK_TIMEOUT = 1.0  # seconds to wait for another job's lock; after that the node only forwards


class Staged(NamedTuple):
    """The result of a node: survey, preparation, and fields of the final report that only a chain has."""

    survey: Survey
    prepared: PreparedSet
    more: Dict[str, Any]


class Member:
    """One node of a chain: prepares, copies, publishes, and manages the connections to the next nodes."""

    def __init__(self, staging: Staging) -> None:
        state = self.state = RelayState(staging)
        # The shard follows from the position in the host list: each node computes it by itself, and all agree.
        staging.shard = shard_of(staging.given, state.index, len(state.names))
        state.room = survey_source.room_of(staging)
        self.staging = staging
        self.staged: Optional[Staged] = None
        state.reordered = self._reorder
        self.upstream = Upstream(state, staging.given.bind, lambda: leader.lead(state))

    def _connect(self, node: int, *, joined: bool = False) -> None:
        """Connect to a node downstream of this one."""
        state = self.state
        if node not in state.downstream:
            downstream = state.downstream[node] = Downstream(
                state, node, self._continue_without, self._bypassed, joined=joined
            )
            state.spawn(downstream.serve())

    def _continue_without(self, node: int, why: str) -> None:
        """Continue without a lost node: connect to the nodes that follow it."""
        state = self.state
        state.lost[node] = why
        self.staging.progress.log("node {} ({}) is lost: {}".format(node, state.names[node], why))
        self.staging.progress.event("lost", node=node, host=state.names[node], why=why)
        if state.workers:
            state.workers.send_all({"do": "drop", "node": node})
        # A node in the last status of the lost one has started: it gets the timeout of a connected node, not that of a
        # node that may still have to start.
        for further in state.children(node):
            self._connect(further, joined=further in state.downstream[node].status.nodes)
        state.signal.notify()

    async def _arrange(self) -> None:
        """Connect to the nodes that follow this one in the session's shape, and to no others."""
        state = self.state
        await state.until(lambda: bool(state.session))
        wanted = state.children(state.index)
        for node in [n for n in state.downstream if n not in wanted and n not in state.lost]:
            # Nodes first connect as a chain, since the shape is known only with the session. In a tree some of these
            # connections belong to other nodes now; in a chain the next node stays the next one.
            if state.session["shape"] != "chain":
                state.downstream.pop(node).disconnect()
        for node in wanted:
            self._connect(node)

    def _reorder(self, moved: List[int]) -> None:
        """Nodes have moved to the end of the chain: send to the node that now follows this one, and to no other."""
        state = self.state
        wanted = state.following(state.index)
        for node in [node for node in state.downstream if node != wanted and node not in state.lost]:
            downstream = state.downstream.pop(node)
            if state.workers:
                state.workers.send_all({"do": "drop", "node": node})
            state.spawn(downstream.hand_over())
        # The moved node is still the next one (it was last before): only stop other nodes from waiting for it.
        if wanted in state.downstream and wanted in moved and state.workers:
            state.workers.send_all({"do": "detach", "node": wanted})
        elif wanted is not None:
            self._connect(wanted, joined=True)
        if state.index in moved:
            self.upstream.disconnect_for_move()
        state.suspect = False
        state.slow.clear()

    def _bypassed(self) -> None:
        """The others have continued without this node: read the missing blocks from the source."""
        state = self.state
        self.staging.progress.log(
            "the other nodes continued without this one; reading the rest from the source"
        )
        for node in state.downstream.values():
            node.gone = True
        state.signal.notify()
        if not state.leading:
            state.spawn(leader.lead(state))

    async def run(self) -> None:
        """Stage until the set is published on this node and all after it; raises NodeError if that fails."""
        state = self.state
        self.upstream.listen()
        # Nodes connect as a chain whatever the shape will be: the leader chooses it after all have reported.
        for node in shapes.children(state.index, len(state.names), "chain"):
            self._connect(node)
        state.spawn(self._arrange())
        if state.index == 0:
            state.spawn(leader.lead(state))
        else:
            state.spawn(self.upstream.lead_unless_connected())
        state.spawn(self._stage())
        state.spawn(self._end_on_abort())
        state.spawn(SlowNodes(state).watch())
        try:
            await state.outcome
        except NodeError as fault:
            await self.upstream.fail(fault.message)
            raise

    async def _end_on_abort(self) -> None:
        state = self.state
        await state.until(lambda: state.announced("abort") is not None)
        await state.until(
            lambda: all(n.abort_sent or n.gone for n in state.downstream.values()), LEAVE_TIMEOUT
        )
        abort = state.announced("abort")
        if abort and not state.outcome.done():
            kind = NoSpace if abort.message["full"] else NodeError
            state.outcome.set_exception(kind(abort.message["why"], abort.message.get("help")))

    async def _stage(self) -> None:
        state = self.state
        staging = self.staging
        await state.until(lambda: bool(state.session) and state.survey is not None)
        whole = state.survey
        if whole is None:
            return
        # Two jobs may stage the same set on the same nodes in opposite order. If each waited here for the other's lock,
        # both chains would deadlock. So after a second this node only forwards blocks, and waits for the lock afterwards.
        end = time.monotonic() + LOCK_TIMEOUT
        while not staging.try_lock() and time.monotonic() < end:
            await asyncio.sleep(LOCK_TIMEOUT / 10)
        staging.hasher, staging.worker_count = hasher(state.session["hash"]), state.session["workers"]
        surveyed = whole

        def planned() -> Survey:
            own = whole.own_shard(staging)
            return survey_source.plan_delta(staging, own, relayed=False) if staging.shard else own

        try:
            surveyed = await in_thread(planned)
            state.prepared = await in_thread(lambda: copying.prepare(staging, surveyed))
        except NodeError as fault:
            state.cannot, state.full = fault.message, isinstance(fault, NoSpace)
        # READY also after a failure: the leader sees the failure in the status, and ends the session on all nodes.
        self._start_workers()
        state.phase = READY
        state.signal.notify()
        await state.until(lambda: state.announced("go") is not None and state.prepared is not None)
        state.began = time.monotonic()
        # Shards differ from node to node, so no blocks are forwarded: every node reads its own shard.
        if staging.shard and not state.leading:
            await leader.read(state)
        await self._wait_for_blocks()
        await state.until(lambda: state.announced("final") is not None)
        await self._publish(surveyed)

    def _start_workers(self) -> None:
        """Start the workers, which are connected while other nodes still prepare: nothing moves before `go`."""
        state = self.state
        if state.prepared is None:
            return
        key = session_key(state.secret, state.session["id"])
        state.workers = Workers(state.prepared.task, state.tokens, state.session["workers"], key)
        loop = asyncio.get_event_loop()
        for number, channel in enumerate(state.workers.channels):
            loop.add_reader(channel, self._worker_reports, number)
        state.signal.notify()

    def _worker_reports(self, number: int) -> None:
        state = self.state
        if state.workers is None:
            return
        try:
            message = state.workers.receive(number)
        except NodeError as fault:
            asyncio.get_event_loop().remove_reader(state.workers.channels[number])
            if not state.outcome.done():
                state.outcome.set_exception(fault)
            return
        event = message["event"]
        if event == "failed" and not state.outcome.done():
            state.outcome.set_exception(disk_failed(message["message"], message["full"]))
        elif event == "faulty":
            state.faults.append((message["message"], message["unreadable"]))
        elif event == "lost-down" and message["node"] in state.downstream:
            state.downstream[message["node"]].broken(number, message["attempt"])
        elif event == "lost-up":
            state.spawn(self.upstream.request_connection(number, message["attempt"]))
        else:
            state.worker_events.append(event)
        state.signal.notify()

    async def _wait_for_blocks(self) -> None:
        """Wait until all blocks that this node keeps are on its disk, then take their hashes."""
        state = self.state
        prepared = state.prepared
        if prepared is None:
            return
        board = prepared.task.board
        files = prepared.task.manifest.files()

        def totals() -> Totals:
            return Totals(prepared.missing, files, board.total("bytes"), board.total("files"))

        missing = len(prepared.task.blocks) if prepared.how == COPY else 0
        while missing:
            if state.leading:
                self.staging.progress.update(totals, self._last)
            # Polling shared memory costs less than a message for each block.
            missing = board.plane(HERE).count(0)
            await asyncio.sleep(REPORT_INTERVAL if missing > LAST_BLOCKS else LAST_BOARD_INTERVAL)
        if prepared.build is not None:
            await in_thread(prepared.build.take_hashes)
            state.digest = hashlib.sha256(prepared.build.manifest.digests).hexdigest()
        state.signal.notify()

    def _last(self) -> Dict[str, Any]:
        """Host name and bytes of the node with the least data."""
        reports = self.state.status().reports
        node = min(reports, key=lambda known: (reports[known].bytes, -known))
        return {"host": self.state.names[node], "bytes_done": reports[node].bytes}

    async def _publish(self, surveyed: Survey) -> None:
        state = self.state
        staging, prepared, final = self.staging, state.prepared, state.announced("final")
        if prepared is None or final is None:
            return
        if prepared.build is not None:
            build, digest = prepared.build, final.message["digest"]
            if digest is not None and digest != state.digest:
                staging.abandon()
                # The wrong blocks may have been linked from the published version: remove that, too.
                staging.area.remove_published(staging.name)
                raise Damaged(
                    "the copy from an earlier run differs from the source",
                    "it was removed; run again",
                )
            await in_thread(lambda: publishing.publish(staging, build))
        state.phase, state.ended = DONE, time.monotonic()
        state.signal.notify()
        await state.until(lambda: state.over)
        await state.until(
            lambda: all(node.has_left or node.gone for node in state.downstream.values()), LEAVE_TIMEOUT
        )
        self.staged = Staged(surveyed, prepared, self._chain_fields())
        if not state.outcome.done():
            state.outcome.set_result(None)

    def _chain_fields(self) -> Dict[str, Any]:
        """The fields of the final report that only a chain has."""
        state = self.state
        status = state.status()
        more: Dict[str, Any] = {"node": state.index, "nodes": len(status.nodes)}
        if state.leading:
            slow = slowest(status.reports, {n: state.children(n) for n in status.nodes})
            more["lost"] = {state.names[node]: why for node, why in sorted(status.lost.items())}
            more["reports"] = [report.pack() for _, report in sorted(status.reports.items())]
            more["shape"] = state.session["shape"]
            if state.demoted:
                more["slow"] = self._demoted()
            elif slow:
                host = state.names[slow.node]
                more["slow"] = [{"host": host, "why": slow.why, "part": slow.part}]
                self.staging.notes.append(
                    "the slowest node was {} ({}, {:.0f} % of the time)".format(
                        host, slow.why, slow.part * 100
                    )
                )
            self.staging.progress.log("on {}".format(text.count(len(status.nodes), "node")))
        return more

    def _demoted(self) -> List[Dict[str, Any]]:
        """The nodes that moved to the end of the chain, for the report; adds them to the notes, too."""
        state = self.state
        moved: List[Dict[str, Any]] = []
        for node, (rate, others) in state.moves():
            host = state.names[node]
            part = round(1 - rate / others, 3)
            moved.append(
                {
                    "host": host,
                    "why": "its network",
                    "part": part,
                    "rate": round(rate),
                    "others": round(others),
                }
            )
            self.staging.notes.append(
                "node {} is slow: its network transfers {}/s, that of the others {}/s or more; it received its data last".format(
                    host, text.size(rate), text.size(others)
                )
            )
        return moved

    def close(self) -> None:
        """End the workers and every connection."""
        state = self.state
        state.close()
        self.upstream.close()
        if state.workers:
            workers, state.workers = state.workers, None
            for channel in workers.channels:
                asyncio.get_event_loop().remove_reader(channel)
            workers.__exit__()


def run(staging: Staging) -> None:
    """Stage this node's copy together with the other nodes of the host list; raises NodeError if it fails."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    member = Member(staging)
    try:
        loop.run_until_complete(member.run())
    finally:
        member.close()
        # Without this, asyncio would log the tasks that are cancelled at the end.
        loop.set_exception_handler(lambda _, __: None)
        # One more turn of the loop: cancelled tasks release their connections in it.
        loop.run_until_complete(asyncio.sleep(0))
    staged = member.staged
    if staged is None:
        return
    # After the end of the chain, so that no other node waits for this one while it waits for the other job's lock.
    if staged.prepared.how == RELAY:
        staging.lock()
        copying.copy(staging, copying.prepare(staging, staged.survey), **staged.more)
    else:
        publishing.done(staging, staged.survey.manifest, staged.prepared, **staged.more)
