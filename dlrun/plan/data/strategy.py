"""Selection of the staging strategy of a data set by its size, number of files, number of reads, and free storage."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeAlias

from dlrun.model.data import DataSet, NodeLocal
from dlrun.model.observed import DataSize
from dlrun.model.record import record
from dlrun.model.units import Bytes

Strategy: TypeAlias = Literal["in_place", "copy", "shard", "pack", "image", "part"]
"""How a data set reaches the nodes, once that is chosen."""

GIVEN = "from the spec"
"""The reason for a strategy that the user chose."""

MANY_FILES = 50_000
"""Number of files from which opening costs more than reading (a metadata server handles some 10,000 opens per second)."""

SMALL_FILE = Bytes(128 * 1024)
"""Mean file size up to which opening costs as much as reading: 0.3 ms at 500 MB/s."""

MARGIN = 0.95
"""Fraction of the node-local storage that a data set may fill; fuller file systems become slow."""

NOTHING = Bytes(0)
LEAST_PART = 0.1
"""Fraction of a data set from which copying a part is worthwhile: it saves that fraction of each epoch's reads."""

IN_MEMORY = ("/dev/shm", "/run/shm")  # noqa: S108 - the profile named it
"""Directories that are in memory (tmpfs) on every Linux."""

MEMORY_PART = 0.5
"""Fraction of a node's memory for data: the default size of a tmpfs (tmpfs(5)); the rest is for the training."""

STRIPE = Bytes(4 << 20)
MOST_STRIPES = 16
"""Recommended stripe size (that of dlrun's reads) and maximum stripe count (enough OSTs for most sites) for large files."""


@record(frozen=True, slots=True, kw_only=True)
class Choice:
    """A strategy with its reason, and advice; `fallback`: read in place if it does not fit when the job runs.

    `room`: maximum bytes per node for strategy `part`.
    """

    strategy: Strategy
    because: str
    advice: str = ""
    fallback: bool = False
    room: Bytes | None = None


def sized(local: NodeLocal | None, memory: Bytes | None) -> NodeLocal | None:
    """The node-local storage with its size; the size of storage in memory is a fraction of the job's memory per node."""
    if local is None or local.size is not None:
        return local
    kind = "memory" if local.path.rstrip("/").startswith(IN_MEMORY) else local.kind
    if kind != "memory":
        return local
    return replace(local, kind="memory", size=None if memory is None else Bytes(int(memory * MEMORY_PART)))


def known_size(data: DataSet, measured: DataSize | None) -> Bytes | None:
    """The size of a data set, from the spec or measured; None if unknown before the job starts."""
    return data.size if data.size is not None else measured.size if measured else None


def room_for_part(local: NodeLocal, others: Bytes) -> Bytes | None:
    """Free storage per node beside other data sets of `others` bytes; None if the storage's size is unknown."""
    return None if local.size is None else Bytes(max(0, int(local.size * MARGIN) - others))


def choose_strategy(
    data: DataSet, measured: DataSize | None, local: NodeLocal, nodes: int, others: Bytes = NOTHING
) -> Choice:
    """The strategy of a data set at a site with node-local storage, of which other data sets use `others` bytes."""
    size = known_size(data, measured)
    if size is None:
        return Choice(
            strategy="part",
            because="its size is unknown at submission: the part that fits on every node is copied, the rest is read in place",
            fallback=True,
        )
    what = _described(size, measured)
    room = local.size
    if room is not None and size > room * MARGIN:
        return _too_large(data, measured, local, nodes, others)
    if data.reads == 1 and nodes == 1:
        return Choice(
            strategy="in_place", because=f"{what} is read only once by one node, so a copy would save nothing"
        )
    if measured is not None and not measured.whole and data.size is None:
        return Choice(
            strategy="part",
            because=f"{what}, not fully counted: the part that fits on every node is copied, the rest is read in place",
            fallback=True,
        )
    often = (
        "in every epoch" if data.reads is None else "once each" if data.reads == 1 else f"{data.reads} times"
    )
    saved = f"instead of by {nodes} nodes {often}" if nodes > 1 else f"instead of {often}"
    fits = f"fits the {room} of" if room is not None else "is copied to"
    because = f"{what} {fits} {_kind(local)} ({local.path}), and is then read once from the shared file system {saved}"
    # Free memory, and the free space of storage of unknown size, are known only when the job starts.
    in_memory = local.kind == "memory"
    unsure = room is None or in_memory
    if unsure:
        because += "; should a node not have the space when the job starts, the rest is read in place"
    return Choice(strategy="part" if unsure else "copy", because=because, fallback=unsure)


def _too_large(
    data: DataSet, measured: DataSize | None, local: NodeLocal, nodes: int, others: Bytes
) -> Choice:
    """The strategy of a data set larger than a node's storage: `part` if enough of it fits, else `in_place`."""
    size, room, part = (
        known_size(data, measured) or Bytes(0),
        local.size or Bytes(0),
        room_for_part(local, others),
    )
    because = f"{_described(size, measured)} does not fit the {room} of {_kind(local)} ({local.path})"
    advice = _advice(size, measured, room, nodes)
    if part is None or part < size * LEAST_PART:
        beside = f" beside {others} of other data sets" if others else ""
        because += f", and the part that fits{beside} is less than {LEAST_PART:.0%} of it"
        return Choice(strategy="in_place", because=because, advice=advice)
    if data.reads == 1 and nodes == 1:
        because += ", and one node reads it only once, so a copy would save nothing"
        return Choice(strategy="in_place", because=because, advice=advice)
    because += ": " + _split(size, part, data.reads)
    return Choice(strategy="part", because=because, advice=advice, fallback=True, room=part)


def choose_part(data: DataSet, measured: DataSize | None, local: NodeLocal, others: Bytes) -> Choice:
    """The choice for `strategy: part` of the spec."""
    size, part = known_size(data, measured), room_for_part(local, others)
    because = GIVEN
    if size is not None and part is not None:
        because += ": all of it fits" if size <= part else ": " + _split(size, part, data.reads)
    return Choice(strategy="part", because=because, fallback=True, room=part)


def _split(size: Bytes, part: Bytes, reads: int | None) -> str:
    """Text: the part copied to each node, and the rest, read in place."""
    who = "the training" if reads == 1 else "every epoch"
    return (
        f"{part} of it, small files first, is copied to each node; {who} reads the other {Bytes(size - part)} from the "
        f"shared file system, through links, instead of {size}"
    )


def _kind(local: NodeLocal) -> str:
    return "memory for data on a node" if local.kind == "memory" else "node-local storage"


def _described(size: Bytes, measured: DataSize | None) -> str:
    if measured is None:
        return f"its {size}"
    more = "more than " if not measured.whole else ""
    return f"its {more}{size} in {measured.files:,} file{'' if measured.files == 1 else 's'}"


def _advice(size: Bytes, measured: DataSize | None, room: Bytes, nodes: int) -> str:
    """Advice for a data set that does not fit."""
    lines = []
    if nodes > 1 and size <= room * MARGIN * nodes:
        lines.append(
            f"`strategy: shard` gives each of the {nodes} nodes its part, if the training does not read other parts"
        )
    if measured is not None and measured.files >= MANY_FILES and measured.size / measured.files <= SMALL_FILE:
        lines.append(
            "pack the small files into a few large ones (`dlrun stage-data --strategy pack` makes an indexed tar): "
            "each open costs the metadata server as much as reading the file"
        )
    else:
        count = max(2, min(nodes, MOST_STRIPES))
        lines.append(
            f"stripe large files over OSTs before they are written: `lfs setstripe -c {count} -S {STRIPE >> 20}M DIRECTORY`"
        )
    return "; ".join(lines)
