"""Manifests of a part of a data set: a node's shard, or the files that a destination lacks."""

import argparse
import heapq
import re
from array import array
from typing import Callable, Dict, List, Optional, Tuple

from ..common.errors import Usage
from .manifest import FILE, HARD, LINK, Manifest

BALANCES = ("files", "bytes")


def subset(manifest: Manifest, wanted: Callable[[int], bool]) -> Manifest:
    """The manifest of some entries, with all directories; hard links are included with their file.

    `wanted(entry)` is called for files and symbolic links.
    """
    made = Manifest()
    made.dirs, made.info = list(manifest.dirs), dict(manifest.info)
    made.dir_modes, made.dir_mtimes = manifest.dir_modes[:], manifest.dir_mtimes[:]
    targets, firsts = dict(manifest.link_targets()), dict(manifest.hard_links())
    # Old entry -> new entry: hard links, holes and attributes refer to entries by number.
    places: Dict[int, int] = {}
    columns = ["parents", "modes", "sizes", "mtimes"]
    columns += [name for name in ("ctimes", "inodes") if getattr(manifest, name)]
    for entry, kind in enumerate(manifest.kinds):
        if kind == HARD:
            if firsts[entry] not in places:
                continue
            made.hard.append(places[firsts[entry]])
        elif not wanted(entry):
            continue
        elif kind == LINK:
            made.links.append(targets[entry])
        places[entry] = len(made.names)
        made.names.append(manifest.names[entry])
        made.kinds.append(kind)
        for column in columns:
            getattr(made, column).append(getattr(manifest, column)[entry])
    made.sparse = array("I", [places[entry] for entry in manifest.sparse if entry in places])
    made.xattrs = [(places.get(i, i), k, v) for i, k, v in manifest.xattrs if i < 0 or i in places]
    return made


def shard(manifest: Manifest, part: int, parts: int, balance: str) -> Manifest:
    """Shard number `part` of `parts`, balanced by `files` or `bytes`.

    Every file is in exactly one shard; symbolic links and directories are in all.
    """
    files = [entry for entry, kind in enumerate(manifest.kinds) if kind == FILE]
    owner: Dict[int, int] = {}
    if balance == "files":
        owner = {entry: place % parts for place, entry in enumerate(files)}
    else:
        loads: List["tuple[int, int]"] = [(0, number) for number in range(parts)]
        # Largest first, to the least loaded shard; ties by number, so that all nodes compute the same.
        for entry in sorted(files, key=lambda e: (-manifest.sizes[e], e)):
            load, number = heapq.heappop(loads)
            owner[entry] = number
            heapq.heappush(loads, (load + manifest.sizes[entry], number))
    made = subset(manifest, lambda entry: owner.get(entry, part) == part)
    made.info["shard"] = [part, parts, balance]
    return made


def shard_of(arguments: argparse.Namespace, index: int, count: int) -> Optional[Tuple[int, int, str]]:
    """(number, number of shards, balance) of a node's shard; None for other strategies. Usage for an invalid --shard."""
    if arguments.strategy != "shard":
        return None
    if arguments.hosts is not None:
        return index, count, arguments.balance
    match = re.match(r"([0-9]+)/([0-9]+)\Z", arguments.shard or "")
    if not match or not int(match.group(1)) < int(match.group(2)):
        raise Usage("--strategy shard needs --hosts, or --shard K/N with K less than N")
    return int(match.group(1)), int(match.group(2)), arguments.balance
