"""The messages of a chain: announcements downstream, status upstream; and the signal that wakes a node's tasks."""

import asyncio
import zlib
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Tuple

from ..common.errors import NodeError
from ..network.link import Message
from ..store.room import Room

MAX_MANIFEST = 1 << 34  # bytes of a manifest that a node takes from another
MIN_WAIT = 0.5  # part of the time that nodes wait for a link or disk from which on it is reported as slow
ANNOUNCEMENTS = ("session", "go", "demote", "final", "abort")  # messages that are forwarded to all nodes
JOINED, READY, DONE = 1, 2, 3  # phases of a node with all after it: connected, prepared, published


class Signal:
    """Wakes all waiting tasks at any change; each then checks its own condition."""

    def __init__(self) -> None:
        self._waiting: List["asyncio.Future[None]"] = []

    def notify(self) -> None:
        """Wake all waiting tasks."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            _wake(future)

    async def wait(self, timeout: float) -> None:
        """Wait for the next change, at most `timeout` seconds.

        Not with asyncio.wait_for: before Python 3.12 it loses a cancellation that arrives together with the change, and a
        task that is not cancelled keeps the program from ending.
        """
        loop = asyncio.get_event_loop()
        future = loop.create_future()
        self._waiting.append(future)
        timer = loop.call_later(timeout, _wake, future)
        try:
            await future
        finally:
            timer.cancel()
            self._waiting = [other for other in self._waiting if other is not future]


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


class Announcement(NamedTuple):
    """One message for all nodes of the chain, also for those that connect later."""

    message: Message
    blob: bytes = b""


# A node that moves to the end of the chain; bytes/s to it, and without it.
Move = Tuple[int, Tuple[float, float]]


def demotion(moves: Iterable[Move]) -> Announcement:
    """The announcement that nodes move to the end of the chain, in this order."""
    entries = [[node, [round(rate) for rate in rates]] for node, rates in moves]
    return Announcement({"do": "demote", "moves": entries})


class Slow(NamedTuple):
    """A slow node: bytes a second to it, and to another one.

    moves: nodes that had moved to the end before that; times: measurements in a row that agree, some of which count for several;
    by: the node that found it.
    """

    rate: float
    others: float
    moves: int
    times: int
    by: int


class Report(NamedTuple):
    """One node's figures. As parts of its time: `starved`, waiting for the previous node; `held`, waiting for the next
    nodes; `disk`, with data waiting for its disk; `starving`: like `starved`, over the last half second; received: bytes.
    """

    node: int
    how: str
    bytes: int
    seconds: float
    starved: float
    held: float
    disk: float
    starving: float = 0.0
    received: int = 0

    def pack(self) -> List[Any]:
        """For a message."""
        return list(self)


class Status:
    """The status of a node and all after it, as reported upstream.

    lost, cannot: node -> reason; full: nodes of `cannot` without space; hashes: hash functions common to all; slow: slow
    nodes; suspect: the first of the nodes may be slow; room: the least room of all nodes
    (strategy part), else None.
    """

    def __init__(self) -> None:
        self.phase = 0
        self.nodes: List[int] = []
        self.hashes: List[str] = []
        self.lost: Dict[int, str] = {}
        self.cannot: Dict[int, str] = {}
        self.full: List[int] = []
        self.reports: Dict[int, Report] = {}
        self.slow: Dict[int, Slow] = {}
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
    status = Status()
    status.phase, status.nodes, status.hashes = message["phase"], message["nodes"], message["hashes"]
    status.lost, status.cannot, status.full = dict(message["lost"]), dict(message["cannot"]), message["full"]
    status.slow = {node: Slow(*slow) for node, slow in message["slow"]}
    status.suspect = message["suspect"]
    status.room = Room(*message["room"]) if message["room"] else None
    status.reports = {entry[0]: Report(*entry) for entry in message["reports"]}
    return status


class Slowest(NamedTuple):
    """The node that slowed down the others, why, and in which part of the time."""

    node: int
    why: str
    part: float


def slowest(reports: Dict[int, Report], sent_to: Dict[int, List[int]]) -> Optional[Slowest]:
    """The node that slowed down the others; None if there is none.

    Before a node with a slow disk the nodes wait to send, and after it they wait to receive. A slow link follows the last
    node that waits to send while the next one waits to receive.
    """
    # A node that has finished no longer reports, so its time is shorter: parts are compared over the longest time.
    whole = max((report.seconds for report in reports.values()), default=0.0) or 1.0
    disks = sorted((report.disk * report.seconds / whole, node) for node, report in reports.items())
    if len(disks) > 1:
        middle, (most, node) = disks[(len(disks) - 1) // 2][0], disks[-1]
        if most > MIN_WAIT and most > 2 * middle:
            return Slowest(node, "its disk", most)
    for node, report in sorted(reports.items(), reverse=True):
        after = [reports[k] for k in sent_to.get(node, []) if k in reports]
        if node > 0 and report.held > MIN_WAIT and any(r.starved > MIN_WAIT for r in after):
            return Slowest(after[0].node, "the network to it", report.held)
    return None


def inflate(blob: bytes) -> bytes:
    """Decompress a manifest; NodeError beyond `MAX_MANIFEST` bytes."""
    engine = zlib.decompressobj()
    data = engine.decompress(blob, MAX_MANIFEST)
    if engine.unconsumed_tail:
        raise NodeError("the manifest is too large")
    return data


def deflate_need(need: int, blocks: int) -> bytes:
    """Pack a bit set of needed blocks (see `RelayState.need`) for a message."""
    return zlib.compress(need.to_bytes(blocks, "little"), 1)


def inflate_need(blob: bytes) -> int:
    """The needed blocks of a message, as in `RelayState.need`."""
    return int.from_bytes(zlib.decompress(blob), "little")
