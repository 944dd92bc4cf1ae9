"""Lead a chain: say what is copied, wait until every node has made room, read it, and say that it is all."""

import os
import zlib
from typing import TYPE_CHECKING, List, Tuple

from . import topology
from .board import SEEN
from .errors import NodeError, SourceFault, Usage
from .facts import JOINED, READY, Fact
from .hashing import hasher
from .local import source_changed
from .manifest import Manifest
from .threads import in_thread

if TYPE_CHECKING:
    from .member import Member

LINK_RATE = 1.25e9  # bytes a second of a node's network, for the choice between chain and tree: 10 Gbit/s
MOST_MANIFEST = 1 << 34  # bytes of a manifest that a node takes from another


def group(names: List[str], index: int, readers: int) -> Tuple[List[str], int]:
    """The hosts of the chain that a node belongs to and its place there: `readers` chains of equal length."""
    if not 0 <= index < len(names):
        message = "--index {} is not one of the {} hosts".format(index, len(names))
        raise Usage(message)
    count = max(1, min(readers, len(names)))
    starts = [len(names) * k // count for k in range(count + 1)]
    mine = next(k for k in range(count) if starts[k] <= index < starts[k + 1])
    return names[starts[mine] : starts[mine + 1]], index - starts[mine]


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


async def lead(member: "Member") -> None:
    """Lead from wherever the chain stands: from the beginning, or on from where the leader before died."""
    member.leading = True
    if not member.session:
        await _begin(member)
    nexts = member.nexts
    await member.until(lambda: member.phase >= READY and all(n.settled >= READY for n in nexts.values()))
    cannot = member.standing().cannot
    if cannot:
        why = "; ".join(why for _, why in sorted(cannot.items()))
        _abort(member, why, full=set(cannot) == set(member.standing().full))
        return
    member.learn(Fact({"do": "go"}))
    await member.until(lambda: member.crew is not None)
    if member.fact("final") is not None:
        return
    try:
        await read(member)
    except SourceFault as fault:
        _abort(member, fault.message, fault.help or "")
        return
    if member.prepared is not None and member.prepared.build is not None and not member.stage.part:
        await member.until(lambda: member.digest is not None)
    member.learn(Fact({"do": "final", "digest": member.digest if not member.stage.part else None}))


async def _begin(member: "Member") -> None:
    stage, nexts = member.stage, member.nexts
    stage.try_lock()
    try:
        manifest = await in_thread(lambda: stage.find(whole=True))
    except NodeError as fault:
        _abort(member, fault.message, fault.help or "")
        return
    await member.until(lambda: all(n.settled >= JOINED for n in nexts.values()))
    shape = stage.given.shape
    if shape == "auto":
        shape = topology.choose(len(member.names), manifest.size(), LINK_RATE)
    session = {
        "do": "session",
        "id": os.urandom(16).hex(),
        "hash": _hash(member),
        "lanes": stage.lanes,
        "shape": shape,
    }
    member.manifest = manifest
    member.learn(Fact(session, await in_thread(lambda: zlib.compress(_plain(manifest), 1))))


def _plain(manifest: Manifest) -> bytes:
    """The manifest without hashes: every node takes those that come with the data."""
    digests, size = manifest.digests, manifest.digest_size
    manifest.digests, manifest.digest_size = b"", 0
    try:
        return manifest.pack()
    finally:
        manifest.digests, manifest.digest_size = digests, size


def _hash(member: "Member") -> str:
    """The hash function of the session: as asked, or the best that every node has."""
    asked = member.stage.given.hash
    return member.standing().hashes[0] if asked == "auto" else hasher(asked).name


def _abort(member: "Member", why: str, help: str = "", full: bool = False) -> None:
    """End the session everywhere; `full`: for want of space alone."""
    member.learn(Fact({"do": "abort", "why": why, "help": help or None, "full": full}))


async def read(member: "Member") -> None:
    """Read what is wanted and has not come through here yet; a source that has changed ends the session."""
    crew, prepared = member.crew, member.prepared
    if crew is None or prepared is None or member.dealt:
        return
    member.dealt = True
    lanes = len(crew.channels)
    crew.tell_all({"do": "alone"})
    await member.until(lambda: member.lane_events.count("alone") >= lanes)
    board, blocks = prepared.task.board, len(prepared.task.blocks)
    seen, wanted = board.plane(SEEN), member.need().to_bytes(blocks, "little")
    member.tokens.deal(prepared.task, [n for n in range(blocks) if wanted[n] and not seen[n]])
    crew.tell_all({"do": "read"})
    await member.until(lambda: member.lane_events.count("read") >= lanes)
    if member.faults:
        raise source_changed(member.faults)
