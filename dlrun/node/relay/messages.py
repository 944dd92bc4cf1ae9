"""The messages of a chain: announcements going down, each node's status going up; and the signal of a change."""

import asyncio
import zlib
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..common.errors import NodeError
from ..network.link import Message
from ..store.room import Room

MOST_MANIFEST = 1 << 34  # bytes of a manifest that a node takes from another
BEHIND = 0.5  # part of its time for which a node must wait to be called slow
ANNOUNCEMENTS = ("session", "go", "behind", "final", "abort")  # the messages that are passed on to every node
JOINED, READY, DONE = 1, 2, 3  # phases of a node and all after it: there, prepared, published


class Signal:
    """Wakes all tasks that wait for any change; each then checks whether it is the one it waits for."""

    def __init__(self) -> None:
        self._waiting: List["asyncio.Future[None]"] = []

    def notify(self) -> None:
        """Wake everyone who waits."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            _wake(future)

    async def wait(self, patience: float) -> None:
        """Until something changes, but at most `patience` seconds.

        Not by asyncio.wait_for: before Python 3.12 that loses a cancellation that comes together with the change,
        and a task that cannot be cancelled keeps the program from ending.
        """
        loop = asyncio.get_event_loop()
        future = loop.create_future()
        self._waiting.append(future)
        timer = loop.call_later(patience, _wake, future)
        try:
            await future
        finally:
            timer.cancel()
            self._waiting = [other for other in self._waiting if other is not future]


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


class Announcement(NamedTuple):
    """One message that goes down the chain to every node, also to one that joins later."""

    message: Message
    blob: bytes = b""


def behind(node: int, rates: Sequence[float]) -> Announcement:
    """A node goes to the end of the chain: bytes a second to it, and without it."""
    return Announcement({"do": "behind", "node": node, "rates": list(rates)})


class Report(NamedTuple):
    """One node's figures; starved, held, disk: the part of its time that it waits for the node before, for those
    after it, and that something waits for its own disk; starving: the first of them, over the last moments."""

    node: int
    how: str
    bytes: int
    seconds: float
    starved: float
    held: float
    disk: float
    starving: float = 0.0

    def pack(self) -> List[Any]:
        """For a message."""
        return list(self)


class Status:
    """A node and all after it, as reported to the node before: phase, lost nodes and why, nodes that cannot, reports.

    full: those of the nodes that lack space; hashes: the hash functions that all of them have; slow: nodes that hold the
    others back, with their rate and that without them; suspect: the first of them may be such a node;
    room: what the set may take on each of them, None where all of it must fit.
    """

    def __init__(self) -> None:
        self.phase = 0
        self.nodes: List[int] = []
        self.hashes: List[str] = []
        self.lost: Dict[int, str] = {}
        self.cannot: Dict[int, str] = {}
        self.full: List[int] = []
        self.reports: Dict[int, Report] = {}
        self.slow: Dict[int, Tuple[float, float]] = {}
        self.suspect = False
        self.room: Optional[Room] = None

    def pack(self) -> Message:
        """For a message."""
        return {
            "do": "status",
            "phase": self.phase,
            "nodes": self.nodes,
            "hashes": self.hashes,
            "lost": sorted(self.lost.items()),
            "cannot": sorted(self.cannot.items()),
            "full": self.full,
            "slow": sorted(self.slow.items()),
            "suspect": self.suspect,
            "room": self.room,
            "reports": [report.pack() for report in self.reports.values()],
        }


def unpack_status(message: Message) -> Status:
    """A status from its message."""
    found = Status()
    found.phase, found.nodes, found.hashes = message["phase"], message["nodes"], message["hashes"]
    found.lost, found.cannot, found.full = dict(message["lost"]), dict(message["cannot"]), message["full"]
    found.slow = {node: (rates[0], rates[1]) for node, rates in message["slow"]}
    found.suspect = message["suspect"]
    found.room = Room(*message["room"]) if message["room"] else None
    found.reports = {entry[0]: Report(*entry) for entry in message["reports"]}
    return found


def slowest(reports: Dict[int, Report], sent_to: Dict[int, List[int]]) -> Optional[Tuple[int, str, float]]:
    """The node that held the others back, why, and for which part of the time; None if there is no such node.

    A node whose own disk is behind keeps those before it waiting to send and those after it waiting to receive;
    a slow link is behind the last node that waits to send while the one after it waits to receive.
    """
    whole = (
        max((report.seconds for report in reports.values()), default=0.0) or 1.0
    )  # who is done reports no more
    disks = sorted((report.disk * report.seconds / whole, node) for node, report in reports.items())
    if len(disks) > 1:
        middle, (most, node) = disks[(len(disks) - 1) // 2][0], disks[-1]
        if most > BEHIND and most > 2 * middle:
            return node, "its disk", most
    for node, report in sorted(reports.items(), reverse=True):
        after = [reports[k] for k in sent_to.get(node, []) if k in reports]
        if node > 0 and report.held > BEHIND and any(r.starved > BEHIND for r in after):
            return after[0].node, "the network to it", report.held
    return None


def inflate(blob: bytes) -> bytes:
    """A manifest as it was before it was sent."""
    engine = zlib.decompressobj()
    found = engine.decompress(blob, MOST_MANIFEST)
    if engine.unconsumed_tail:
        raise NodeError("the manifest is too large")
    return found


def deflate_need(need: int, blocks: int) -> bytes:
    """The blocks that a node needs, for a message."""
    return zlib.compress(need.to_bytes(blocks, "little"), 1)


def inflate_need(blob: bytes) -> int:
    """The blocks that a node needs, from a message."""
    return int.from_bytes(zlib.decompress(blob), "little")
