"""Which files of a source have another status than in an earlier manifest: compared as columns, by one process of several."""

import stat
from bisect import bisect_right
from typing import Any, List, Optional, Sequence, Set, Tuple

from ..common.safety import closing
from ..common.statuses import Statuses
from ..common.system import Waiting
from .listing import open_directory
from .manifest import Manifest

MANY = 128  # files whose statuses are read together
FEW_BATCHES = 4  # batches of files before it counts how many differ
MOSTLY = 4  # a walk is as fast where more than one file in this many differs
PROBE_SECONDS = 0.1  # seconds of looking before the source is classified: on a busy node 20 ms were too few
BUSY = 0.5  # part of the time computing below which it is slow, and a walk with many threads is faster


def is_slow(waiting: Waiting) -> bool:
    """Whether the source makes this process wait."""
    return waiting.is_most(PROBE_SECONDS, BUSY)


def differing(root: bytes, manifest: Manifest, entries: Sequence[int]) -> Optional[List[int]]:
    """Those of a range of entries, all of them files, with another status.

    None if one is missing or cannot be read, if most differ, or if the source is slow.
    """
    there, waiting, parents = Statuses(MANY, every=True), Waiting(), manifest.parents
    found: List[int] = []
    start, last, batches = entries[0], entries[-1] + 1, 0
    while start < last:
        parent = parents[start]
        path, end = manifest.dirs[parent], bisect_right(parents, parent, start, last)
        try:
            with closing(open_directory(root + b"/" + path if path else root)) as directory:
                for first in range(start, end, MANY):
                    names = manifest.names[first : min(end, first + MANY)]
                    if not there.read(directory, names):
                        return None
                    found += _differing(manifest, first, first + len(names), there)
                    batches += 1
                    most = batches >= FEW_BATCHES and len(found) * MOSTLY > first + len(names) - entries[0]
                    if most or is_slow(waiting):
                        return None
        except OSError:
            return None
        start = end
    return found


def _differing(old: Manifest, first: int, end: int, there: Statuses) -> List[int]:
    columns: List[Tuple[Any, Any]] = [
        (there.ctimes(), old.ctimes[first:end].tolist()),
        (there.mtimes(), old.mtimes[first:end].tolist()),
        (there.sizes(), old.sizes[first:end]),
        (there.inodes(), old.inodes[first:end]),
        (there.modes().tolist(), [stat.S_IFREG | mode for mode in old.modes[first:end]]),
    ]
    found: Set[int] = set()
    for now, before in columns:
        if now != before:
            found.update(entry for entry, (a, b) in enumerate(zip(now, before), first) if a != b)
    return sorted(found)
