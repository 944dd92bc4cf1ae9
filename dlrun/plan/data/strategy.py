"""How nodes get a data set when the spec leaves it open: by its size, its files, who reads it how often, and room."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from dlrun.model.data import DataSet
from dlrun.model.observed import DataSize
from dlrun.model.site import NodeLocal
from dlrun.model.units import Bytes

MANY_FILES = 50_000
"""Files from which opening them one by one costs more than reading them (a metadata server serves some 10,000 a second)."""

SMALL_FILE = Bytes(128 * 1024)
"""Mean size up to which a file's open costs as much as its bytes: 0.3 ms at 500 MB/s."""

MARGIN = 0.95
"""Part of the node-local storage that a data set may fill; file systems slow down beyond."""

IN_MEMORY = ("/dev/shm", "/run/shm")  # noqa: S108 - the profile named it
"""Directories that are memory on every Linux."""

MEMORY_PART = 0.5
"""Part of a node's memory that data may fill: what a tmpfs holds unless told otherwise (tmpfs(5)); the rest is the training's."""

STRIPE = Bytes(4 << 20)
MOST_STRIPES = 16
"""Size and number of stripes to advise for large files: the chunks that dlrun reads, and enough OSTs for most sites."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenStrategy:
    """A strategy, why, and what would help; `fallback`: read in place if it does not fit once the job runs."""

    strategy: Literal["in_place", "copy"]
    because: str
    advice: str = ""
    fallback: bool = False


def sized(local: NodeLocal | None, memory: Bytes | None) -> NodeLocal | None:
    """The node-local storage with its size, which for memory is a part of what the job may use on a node."""
    if local is None or local.size is not None:
        return local
    kind = "memory" if local.path.rstrip("/").startswith(IN_MEMORY) else local.kind
    if kind != "memory":
        return local
    return replace(local, kind="memory", size=None if memory is None else Bytes(int(memory * MEMORY_PART)))


def choose(data: DataSet, measured: DataSize | None, local: NodeLocal, nodes: int) -> ChosenStrategy:
    """The choice for one data set on a site with node-local storage."""
    size = data.size if data.size is not None else measured.size if measured else None
    if size is None:
        return ChosenStrategy(
            strategy="copy",
            because="its size is unknown here: when the job starts, it is copied if it fits every node, else read in place",
            fallback=True,
        )
    what = _described(size, measured)
    room = local.size
    if room is not None and size > room * MARGIN:
        because = f"{what} does not fit the {room} of {_kind(local)} ({local.path})"
        return ChosenStrategy(
            strategy="in_place", because=because, advice=_advice(size, measured, room, nodes)
        )
    if measured is not None and not measured.whole and data.size is None and room is None:
        return ChosenStrategy(
            strategy="copy",
            because=f"{what}, not fully counted: when the job starts, it is copied if it fits every node, else read in place",
            fallback=True,
        )
    if data.reads == 1 and nodes == 1:
        return ChosenStrategy(
            strategy="in_place", because=f"{what} is read once by one node, as a copy would, too"
        )
    often = (
        "in every epoch" if data.reads is None else "once each" if data.reads == 1 else f"{data.reads} times"
    )
    saved = f"instead of by {nodes} nodes {often}" if nodes > 1 else f"instead of {often}"
    fits = f"fits the {room} of {_kind(local)}" if room is not None else f"goes to {_kind(local)} if it fits"
    because = f"{what} {fits} ({local.path}), and is then read once from the shared file system {saved}"
    in_memory = local.kind == "memory"  # how much is free, the node knows when the job starts
    return ChosenStrategy(strategy="copy", because=because, fallback=room is None or in_memory)


def _kind(local: NodeLocal) -> str:
    return "memory for data on a node" if local.kind == "memory" else "node-local storage"


def _described(size: Bytes, measured: DataSize | None) -> str:
    if measured is None:
        return f"its {size}"
    more = "more than " if not measured.whole else ""
    return f"its {more}{size} in {measured.files:,} file{'' if measured.files == 1 else 's'}"


def _advice(size: Bytes, measured: DataSize | None, room: Bytes, nodes: int) -> str:
    """What helps a data set that does not fit."""
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
