"""The state of one node of a chain: the announcements received, and the status of this node and all after it.

`leader`, `upstream` and `downstream` share it. All run in one asyncio loop, so it needs no locks.
"""

import asyncio
import math
import time
from collections import deque
from typing import Any, Callable, Coroutine, Deque, Dict, List, Optional, Tuple

from ..blocks.hashing import usable
from ..blocks.progress_board import DONE as HERE
from ..common.errors import from_system
from ..common.safety import read_secret
from ..network import hosts
from ..network.link import Message
from ..staging.request import Staging
from ..staging.survey_source import Survey
from ..store.room import Room
from ..transfer.local import Fault
from ..transfer.task import COPY, PreparedSet, Tokens
from ..transfer.workers import Workers
from .messages import DONE, JOINED, Announcement, Move, Report, Signal, Slow, Status, demotion
from .shapes import children, group

STARVING_WINDOW = 0.5  # seconds over which `starving` is measured
RECHECK_INTERVAL = 60.0  # seconds after which a condition is checked again without a signal


class Neighbour:
    """A following node: its last reported status, and whether it is still part of the chain.

    `has_left`: it was allowed to leave and has closed the connection, or it will not be called again.
    """

    def __init__(self) -> None:
        self.status = Status()
        self.gone = self.has_left = False
        self.abort_sent = False

    @property
    def settled(self) -> int:
        """The phase of that node with all after it; DONE for a node that is gone, so that no node waits for it."""
        return DONE if self.gone else self.status.phase

    def disconnect(self) -> None:
        """End the connection: that node has another upstream node now."""
        raise NotImplementedError

    async def hand_over(self) -> None:
        """Announce to a node that another node sends to it from now on, and end the connection."""
        raise NotImplementedError

    def broken(self, worker: int, attempt: int) -> None:
        """One end has reported a broken data connection: reconnect it while the node answers."""
        raise NotImplementedError


class RelayState:
    """One node's view of its chain; other modules of this package read and change its public attributes."""

    def __init__(self, staging: Staging) -> None:
        arguments = staging.given
        self.names, self.index = group(hosts.read(arguments.hosts), arguments.index, arguments.readers)
        self.staging, self.port, self.secret = staging, arguments.port, read_secret(arguments.secret)
        self.join_time, self.dead_after = arguments.join_timeout, arguments.dead_after
        self.join_end = time.monotonic() + self.join_time
        # Reports grow with the chain.
        self.beat = min(1.0, self.dead_after / 5, max(0.2, len(self.names) / 250))
        self.signal = Signal()
        self.announcements: List[Announcement] = []
        self.downstream: Dict[int, Neighbour] = {}
        self.upstream_path: List[int] = []
        self.needs: Dict[int, int] = {}
        self.lost: Dict[int, str] = {}
        self.slow: Dict[int, Slow] = {}
        self.suspect = False
        self.room: Optional[Room] = None
        self.demoted: List[int] = []
        self.reordered: Callable[[List[int]], None] = lambda _: None
        self.failures: Dict[int, str] = {}
        self.cannot: Optional[str] = None
        self.full = False
        self.phase = JOINED
        self.survey: Optional[Survey] = None
        self.prepared: Optional[PreparedSet] = None
        self.workers: Optional[Workers] = None
        self.tokens = Tokens()
        self.digest: Optional[str] = None
        self.faults: List[Fault] = []
        self.worker_events: List[str] = []
        self.leading = False
        self.may_leave = False  # announced by the previous node: all nodes are done
        self.reading_began = False
        self.began = time.monotonic()
        self.ended: Optional[float] = None
        self._starved: Deque[Tuple[float, float]] = deque()
        self._tasks: List["asyncio.Future[None]"] = []
        self.outcome: "asyncio.Future[None]" = asyncio.get_event_loop().create_future()

    def announced(self, what: str) -> Optional[Announcement]:
        """The announcement of this name, if this node has received it."""
        return next((known for known in self.announcements if known.message["do"] == what), None)

    def announce(self, announcement: Announcement) -> None:
        """Store an announcement, which `Downstream` forwards to the next nodes; duplicates are ignored."""
        message = announcement.message
        moved: List[Move] = []
        if message["do"] == "demote":
            moved = [(node, tuple(rates)) for node, rates in message["moves"] if node not in self.demoted]
            if not moved:
                return
            announcement = demotion(moved)
            self.demoted += [node for node, _ in moved]
        elif self.announced(message["do"]) is not None:
            return
        self.announcements.append(announcement)
        if moved:
            self.reordered([node for node, _ in moved])
        self.signal.notify()

    def moves(self) -> List[Move]:
        """The nodes that moved to the end of the chain, in their order."""
        known = [known.message["moves"] for known in self.announcements if known.message["do"] == "demote"]
        return [(node, tuple(rates)) for moves in known for node, rates in moves]

    def order(self) -> List[int]:
        """The order of the chain: host list order, slow nodes last."""
        return [node for node in range(len(self.names)) if node not in self.demoted] + self.demoted

    def children(self, node: int) -> List[int]:
        """The nodes that a node sends to."""
        shape = self.session.get("shape", "chain")
        if shape != "chain" or not self.demoted:
            return children(node, len(self.names), shape)
        order = self.order()
        place = order.index(node) + 1
        return order[place : place + 1]

    def following(self, node: int) -> Optional[int]:
        """The next node of the chain that is not lost; None at its end."""
        for further in self.children(node):
            return self.following(further) if further in self.lost else further
        return None

    @property
    def done(self) -> bool:
        """Whether this node and all after it are done."""
        return self.phase == DONE and all(node.settled == DONE for node in self.downstream.values())

    @property
    def over(self) -> bool:
        """Whether all nodes of the chain are done, as far as the leader reaches.

        No node leaves before: connections change when a node is slow or dead, and a node that has left would be taken for
        dead by a new previous node.
        """
        return self.done and (self.leading or self.may_leave)

    @property
    def session(self) -> Message:
        """The session message with the common settings; empty before it is known."""
        known = self.announced("session")
        return known.message if known else {}

    def introduction(self, role: str, worker: int = 0, attempt: int = 0) -> Message:
        """The first message of a connection to another node."""
        return {
            "role": role,
            "node": self.index,
            "worker": worker,
            "attempt": attempt,
            "set": self.staging.given.name,
            "count": len(self.names),
            "session": self.session.get("id"),
            "demoted": self.moves(),
        }

    def path(self) -> List[int]:
        """The nodes from the leader to this one; empty while unknown."""
        if self.leading or self.index == 0:
            return [self.index]
        return [*self.upstream_path, self.index] if self.upstream_path else []

    async def until(self, ready: Callable[[], bool], timeout: float = math.inf) -> bool:
        """Wait for a condition, at most `timeout` seconds; returns whether it holds."""
        end = time.monotonic() + timeout
        while not ready():
            left = end - time.monotonic()
            if left <= 0:
                return False
            await self.signal.wait(min(left, RECHECK_INTERVAL))
        return True

    def status(self) -> Status:
        """The status of this node and all after it."""
        status = Status()
        after = [node for node in self.downstream.values() if not node.gone]
        status.phase = min([self.phase, *(node.status.phase for node in after)])
        status.nodes = [self.index]
        # Sorted by preference; the first that stays after all nodes is the session's.
        status.hashes = usable()
        status.lost, status.slow, status.suspect = dict(self.lost), dict(self.slow), self.suspect
        status.room = self.room
        if self.cannot:
            status.cannot[self.index] = self.cannot
            status.full += [self.index] * self.full
        status.reports[self.index] = self.report()
        for node in after:
            status.nodes += node.status.nodes
            # Empty: the node has not reported yet.
            if node.status.hashes:
                status.hashes = [name for name in status.hashes if name in node.status.hashes]
            status.lost.update(node.status.lost)
            for other, slow in node.status.slow.items():
                known = status.slow.get(other, slow)
                status.slow[other] = max(
                    slow, known, key=lambda measurement: (measurement.moves, measurement.times)
                )
            status.cannot.update(node.status.cannot)
            status.full += node.status.full
            if status.room is not None and node.status.room is not None:
                status.room = status.room.least(node.status.room)
            status.reports.update(node.status.reports)
        return status

    def report(self) -> Report:
        """This node's own figures."""
        seconds = (self.ended or time.monotonic()) - self.began
        if self.prepared is None:
            return Report(self.index, "", bytes=0, seconds=seconds, starved=0.0, held=0.0, disk=0.0)
        board, how = self.prepared.task.board, self.prepared.how
        whole = max(1e-9, seconds * board.worker_count * 1e9)
        waits = [round(board.total(name) / whole, 3) for name in ("starved", "held")]
        disk = round(board.most("disk") / max(1e-9, seconds * 1e9), 3)
        starving = self._starving(board.total("starved") / (board.worker_count * 1e9))
        return Report(
            self.index,
            how,
            bytes=board.total("bytes"),
            seconds=round(seconds, 3),
            starved=waits[0],
            held=waits[1],
            disk=disk,
            starving=starving,
            received=board.total("received"),
        )

    def _starving(self, starved: float) -> float:
        """The part of the last `STARVING_WINDOW` seconds spent waiting for data; starved: total seconds of waiting so far."""
        now, known = time.monotonic(), self._starved
        if not known or now - known[-1][0] > STARVING_WINDOW / 10:
            known.append((now, starved))
        while len(known) > 2 and now - known[1][0] >= STARVING_WINDOW:
            known.popleft()
        return round((starved - known[0][1]) / max(STARVING_WINDOW, now - known[0][0]), 3)

    def need(self) -> int:
        """The blocks that this node or one after it lacks: an integer with one byte per block, little-endian."""
        wanted = 0
        if self.prepared is not None and self.prepared.how == COPY:
            # One big integer instead of a list: an `or` of two integers for a million blocks takes microseconds.
            here = self.prepared.task.board.plane(HERE)
            wanted = int.from_bytes(here.translate(bytes([1, 0]) + bytes(254)), "little")
        for node, needed in self.needs.items():
            if node in self.downstream and not self.downstream[node].gone and not self.staging.shard:
                wanted |= needed
        return wanted

    def spawn(self, work: "Coroutine[Any, Any, None]") -> None:
        """Run a coroutine as a task; its exception becomes the outcome of the node."""

        def ended(task: "asyncio.Future[None]") -> None:
            fault = None if task.cancelled() else task.exception()
            if isinstance(fault, OSError):
                fault = from_system(fault, "cannot stage `{}`".format(self.staging.given.name))
            if fault is not None and not self.outcome.done():
                self.outcome.set_exception(fault)

        task = asyncio.ensure_future(work)
        task.add_done_callback(ended)
        self._tasks = [other for other in self._tasks if not other.done()] + [task]

    def close(self) -> None:
        """Cancel all tasks."""
        for task in self._tasks:
            task.cancel()
