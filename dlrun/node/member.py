"""A node's part in a chain: what it knows, its standing, and the steps from the session to the published set.

The node before tells the session; this node prepares, says so, copies what arrives, and publishes. Who leads,
who listens and who is called is in `lead`, `node_before` and `next_node`.
"""

import asyncio
import hashlib
import math
import time
from typing import Any, Callable, Coroutine, Dict, List, NamedTuple, Optional

from . import hosts, lead, text, topology
from .board import DONE as HERE
from .crew import Crew
from .errors import Damaged, NodeError, NoSpace
from .facts import DONE, JOINED, READY, Fact, Report, Signal, Standing, slowest
from .hashing import hasher, usable
from .link import Message
from .local import disk_failed
from .manifest import Manifest
from .next_node import NextNode
from .node_before import NodeBefore
from .options import part
from .progress import Totals
from .safety import read_secret
from .stage import COPY, Prepared, Stage
from .task import Tokens
from .threads import in_thread
from .wire import session_key

LOOK = 60.0  # seconds after which what is waited for is looked at again, though nothing was told
TICK, NEAR = 0.02, 0.002  # seconds between looks at the board, and where only the last blocks are missing
LAST = 4  # blocks that are the last ones
LOCK_TIME = 1.0  # seconds to wait for another job's lock before the data is passed on only
FAREWELL = 2.0  # seconds in which an abort must be told to the next nodes


class Staged(NamedTuple):
    """A node's part when every node has done its own: the data set, how it came here, and more for the report."""

    manifest: Manifest
    prepared: Prepared
    more: Dict[str, Any]


class Member:
    """One node of a chain. The other modules read and change what is public here, all in one asyncio loop."""

    def __init__(self, stage: Stage) -> None:
        given = stage.given
        names = hosts.read(given.hosts)
        self.names, self.index = lead.group(names, given.index, given.readers)
        stage.part = part(given, self.index, len(self.names))
        self.stage, self.port, self.secret = stage, given.port, read_secret(given.secret)
        self.join_time, self.dead_after = given.join_timeout, given.dead_after
        self.join_end = time.monotonic() + self.join_time
        self.beat = min(1.0, self.dead_after / 5)
        self.signal = Signal()
        self.facts: List[Fact] = []
        self.nexts: Dict[int, NextNode] = {}
        self.needs: Dict[int, int] = {}
        self.lost: Dict[int, str] = {}
        self.failures: Dict[int, str] = {}
        self.cannot: Optional[str] = None
        self.full = False
        self.phase = JOINED
        self.manifest: Optional[Manifest] = None
        self.prepared: Optional[Prepared] = None
        self.crew: Optional[Crew] = None
        self.tokens = Tokens()
        self.digest: Optional[str] = None
        self.faults: List[str] = []
        self.lane_events: List[str] = []
        self.staged: Optional[Staged] = None
        self.leading = False
        self.dealt = False
        self.began = time.monotonic()
        self.before = NodeBefore(self, given.bind)
        self._tasks: List["asyncio.Future[None]"] = []
        self.outcome: "asyncio.Future[None]" = asyncio.get_event_loop().create_future()

    # what is known

    def fact(self, what: str) -> Optional[Fact]:
        """The session, go, final or abort, when it is known here."""
        return next((fact for fact in self.facts if fact.message["do"] == what), None)

    def learn(self, fact: Fact) -> None:
        """A fact to act on and to tell the next nodes."""
        if self.fact(fact.message["do"]) is None:
            self.facts.append(fact)
            if fact.message["do"] == "session":
                self.arrange()
            self.signal.tell()

    @property
    def session(self) -> Message:
        """What all nodes of this chain have agreed on; empty before."""
        known = self.fact("session")
        return known.message if known else {}

    def introduction(self, role: str, lane: int = 0, attempt: int = 0) -> Message:
        """What a node that is called is told first."""
        return {
            "role": role,
            "node": self.index,
            "lane": lane,
            "attempt": attempt,
            "set": self.stage.given.name,
            "count": len(self.names),
            "session": self.session.get("id"),
        }

    def path(self) -> List[int]:
        """This node and those before it, the leading one first; empty while they are not known."""
        if self.leading or self.index == 0:
            return [self.index]
        return [*self.before.path, self.index] if self.before.path else []

    async def until(self, ready: Callable[[], bool], patience: float = math.inf) -> bool:
        """Wait until something is so, but at most `patience` seconds; whether it is."""
        end = time.monotonic() + patience
        while not ready():
            left = end - time.monotonic()
            if left <= 0:
                return False
            await self.signal.wait(min(left, LOOK))
        return True

    # what is told

    def standing(self) -> Standing:
        """How this node and all after it stand."""
        found = Standing()
        after = [node for node in self.nexts.values() if not node.gone]
        found.phase = min([self.phase, *(node.standing.phase for node in after)])
        found.nodes = [self.index]
        found.hashes = usable()
        found.lost = dict(self.lost)
        if self.cannot:
            found.cannot[self.index] = self.cannot
            found.full += [self.index] * self.full
        found.reports[self.index] = self.report()
        for node in after:
            found.nodes += node.standing.nodes
            if node.standing.hashes:
                found.hashes = [name for name in found.hashes if name in node.standing.hashes]
            found.lost.update(node.standing.lost)
            found.cannot.update(node.standing.cannot)
            found.full += node.standing.full
            found.reports.update(node.standing.reports)
        return found

    def report(self) -> Report:
        """How this node fares."""
        seconds = time.monotonic() - self.began
        if self.prepared is None:
            return Report(self.index, "", 0, seconds, 0.0, 0.0, 0.0)
        board, how = self.prepared.task.board, self.prepared.how
        whole = max(1e-9, seconds * board.lanes * 1e9)
        waits = [round(board.total(name) / whole, 3) for name in ("starved", "held")]
        disk = round(board.most("disk") / max(1e-9, seconds * 1e9), 3)
        return Report(self.index, how, board.total("bytes"), round(seconds, 3), waits[0], waits[1], disk)

    def need(self) -> int:
        """The blocks that this node or one after it has not got, one byte a block, as one number."""
        wanted = 0
        if self.prepared is not None and self.prepared.how == COPY:
            here = self.prepared.task.board.plane(HERE)
            wanted = int.from_bytes(here.translate(bytes([1, 0]) + bytes(254)), "little")
        for node, needed in self.needs.items():
            if node in self.nexts and not self.nexts[node].gone and not self.stage.part:
                wanted |= needed
        return wanted

    # who comes after

    def spawn(self, work: "Coroutine[Any, Any, None]") -> None:
        """Run a part of the program; what it cannot do ends the program."""

        def ended(task: "asyncio.Future[None]") -> None:
            if not task.cancelled() and task.exception() and not self.outcome.done():
                self.outcome.set_exception(task.exception() or NodeError("unknown"))

        task = asyncio.ensure_future(work)
        task.add_done_callback(ended)
        self._tasks = [other for other in self._tasks if not other.done()] + [task]

    def call(self, node: int) -> None:
        """Take a node as one after this one."""
        if node not in self.nexts:
            self.nexts[node] = NextNode(self, node)
            self.spawn(self.nexts[node].serve())

    def leave(self, node: int, why: str) -> None:
        """Go on without a node: those after it are now after this one."""
        self.lost[node] = why
        self.stage.progress.say("node {} ({}) is lost: {}".format(node, self.names[node], why))
        self.stage.progress.event("lost", node=node, host=self.names[node], why=why)
        if self.crew:
            self.crew.tell_all({"do": "drop", "node": node})
        for further in topology.children(node, len(self.names), self.session.get("shape", "chain")):
            self.call(further)
        self.signal.tell()

    def arrange(self) -> None:
        """Call the nodes that the session's shape puts after this one, and no others."""
        wanted = topology.children(self.index, len(self.names), self.session["shape"])
        for node in [n for n in self.nexts if n not in wanted and n not in self.lost]:
            if self.session["shape"] != "chain":
                self.nexts.pop(node).dismiss()
        for node in wanted:
            self.call(node)

    def cut_off(self) -> None:
        """The others have left this node behind: it reads what it misses by itself."""
        self.stage.progress.say("the other nodes went on without this one; it reads the rest by itself")
        for node in self.nexts.values():
            node.gone = True
        self.signal.tell()
        if not self.leading:
            self.spawn(lead.lead(self))

    # the steps

    async def run(self) -> None:
        """Everything, until the set is published here and on every node after this one, or until it cannot be."""
        self.before.listen()
        for node in topology.children(self.index, len(self.names), "chain"):
            self.call(node)
        if self.index == 0:
            self.spawn(lead.lead(self))
        else:
            self.spawn(self.before.expect())
        self.spawn(self._take_part())
        self.spawn(self._obey_abort())
        try:
            await self.outcome
        except NodeError as fault:
            await self.before.fail(fault.message)
            raise

    async def _obey_abort(self) -> None:
        await self.until(lambda: self.fact("abort") is not None)
        await self.until(lambda: all(n.told_abort or n.gone for n in self.nexts.values()), FAREWELL)
        fact = self.fact("abort")
        if fact and not self.outcome.done():
            kind = NoSpace if fact.message["full"] else NodeError
            self.outcome.set_exception(kind(fact.message["why"], fact.message.get("help")))

    async def _take_part(self) -> None:
        stage = self.stage
        await self.until(lambda: bool(self.session) and self.manifest is not None)
        whole = self.manifest
        if whole is None:
            return
        manifest = await in_thread(lambda: stage.part_of(whole))
        end = time.monotonic() + LOCK_TIME
        while not stage.try_lock() and time.monotonic() < end:
            await asyncio.sleep(LOCK_TIME / 10)
        try:
            stage.hasher, stage.lanes = hasher(self.session["hash"]), self.session["lanes"]
            self.prepared = await in_thread(lambda: stage.prepare(manifest))
        except NodeError as fault:
            self.cannot, self.full = fault.message, isinstance(fault, NoSpace)
        self._start_lanes()
        self.phase = READY
        self.signal.tell()
        await self.until(lambda: self.fact("go") is not None and self.prepared is not None)
        self.began = time.monotonic()
        if stage.part and not self.leading:
            await lead.read(self)
        await self._blocks_here()
        await self.until(lambda: self.fact("final") is not None)
        await self._publish(manifest)

    def _start_lanes(self) -> None:
        """Start the lanes, which are connected while other nodes still prepare: nothing moves before `go`."""
        if self.prepared is None:
            return
        key = session_key(self.secret, self.session["id"])
        self.crew = Crew(self.prepared.task, self.tokens, self.session["lanes"], key)
        loop = asyncio.get_event_loop()
        for number, channel in enumerate(self.crew.channels):
            loop.add_reader(channel, self._lane_says, number)
        self.signal.tell()

    def _lane_says(self, number: int) -> None:
        if self.crew is None:
            return
        try:
            message = self.crew.hear(number)
        except NodeError as fault:
            asyncio.get_event_loop().remove_reader(self.crew.channels[number])
            if not self.outcome.done():
                self.outcome.set_exception(fault)
            return
        event = message["event"]
        if event == "failed" and not self.outcome.done():
            self.outcome.set_exception(disk_failed(message["message"], message["full"]))
        elif event == "faulty":
            self.faults.append(message["message"])
        elif event == "lost-down" and message["node"] in self.nexts:
            self.nexts[message["node"]].broken(number, message["attempt"])
        elif event == "lost-up":
            self.spawn(self.before.again(number, message["attempt"]))
        else:
            self.lane_events.append(event)
        self.signal.tell()

    async def _blocks_here(self) -> None:
        """Until every block that this node keeps is on its disk; then its hashes are known."""
        prepared = self.prepared
        if prepared is None:
            return
        board = prepared.task.board
        files = prepared.task.manifest.files()

        def totals() -> Totals:
            return Totals(prepared.missing, files, board.total("bytes"), board.total("files"))

        missing = len(prepared.task.blocks) if prepared.how == COPY else 0
        while missing:
            if self.leading:
                self.stage.progress.look(totals)
            missing = board.plane(HERE).count(0)
            await asyncio.sleep(TICK if missing > LAST else NEAR)
        if prepared.build is not None:
            await in_thread(prepared.build.take_hashes)
            self.digest = hashlib.sha256(prepared.build.manifest.digests).hexdigest()
        self.signal.tell()

    async def _publish(self, manifest: Manifest) -> None:
        stage, prepared, final = self.stage, self.prepared, self.fact("final")
        if prepared is None or final is None:
            return
        if prepared.build is not None:
            build, digest = prepared.build, final.message["digest"]
            if digest is not None and digest != self.digest:
                build.abandon()
                stage.area.discard(
                    stage.area.directory, stage.name
                )  # it may have given this copy the wrong blocks
                raise Damaged(
                    "the copy that an earlier run left here is not what the source holds now",
                    "it was removed; run again",
                )
            await in_thread(lambda: stage.publish(build))
        self.phase = DONE
        self.signal.tell()
        await self.until(lambda: all(node.settled == DONE for node in self.nexts.values()))
        await self.before.goodbye()
        self.staged = Staged(manifest, prepared, self._end())
        if not self.outcome.done():
            self.outcome.set_result(None)

    def _end(self) -> Dict[str, Any]:
        """What the report of the end says besides what every copy says."""
        standing = self.standing()
        more: Dict[str, Any] = {"node": self.index, "nodes": len(standing.nodes)}
        if self.leading:
            shape = self.session["shape"]
            sent_to = {n: topology.children(n, len(self.names), shape) for n in standing.nodes}
            slow = slowest(standing.reports, sent_to)
            more["lost"] = {self.names[node]: why for node, why in sorted(standing.lost.items())}
            more["reports"] = [report.pack() for _, report in sorted(standing.reports.items())]
            more["shape"] = shape
            if slow:
                node, why, part = slow
                more["slow"] = {"host": self.names[node], "why": why, "part": part}
                self.stage.notes.append(
                    "the slowest node was {} ({}, {:.0f} % of the time)".format(
                        self.names[node], why, part * 100
                    )
                )
            self.stage.progress.say("on {}".format(text.count(len(standing.nodes), "node")))
        return more

    def close(self) -> None:
        """End the lanes and every connection."""
        for task in self._tasks:
            task.cancel()
        self.before.close()
        if self.crew:
            crew, self.crew = self.crew, None
            for channel in crew.channels:
                asyncio.get_event_loop().remove_reader(channel)
            crew.__exit__()
