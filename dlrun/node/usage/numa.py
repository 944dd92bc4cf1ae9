"""The part of a rank's memory that is on the NUMA nodes of its own cores.

For this the kernel walks the page tables of the process (proc(5), numa_maps). So there is at most one sample per minute,
of one rank after the other, and none if it could show nothing: on a node with one NUMA node, and for ranks that may use
the cores of all.
"""

import time
from typing import Dict, FrozenSet, List, Optional, Sequence, Set

from . import procfs
from .ranks import Rank, numbers

BASE = "/sys/devices/system/node"
_PAUSE = 60.0
_MAX_CPU_SHARE = 0.0005


class Locality:
    """Samples the memory of one rank at a time."""

    def __init__(self, base: str = BASE, proc: str = "/proc") -> None:
        self._proc = proc
        self._cores: Dict[int, FrozenSet[int]] = {}
        for name in procfs.names(base):
            if name.startswith("node") and name[4:].isdigit():
                cores = frozenset(numbers(procfs.text("{}/{}/cpulist".format(base, name))))
                # A NUMA node may have memory only.
                if cores:
                    self._cores[int(name[4:])] = cores
        self._next_sample = 0.0
        self._turn = 0
        self.missing: Set[str] = set()

    def sample(self, ranks: Sequence[Rank]) -> None:
        """Sample the next of these ranks, if it is due."""
        now = time.monotonic()
        if now < self._next_sample:
            return
        bound = [rank for rank in ranks if rank.main and self._rank_nodes(rank)]
        if not bound:
            return
        rank = bound[self._turn % len(bound)]
        self._turn += 1
        used = time.process_time()
        content = procfs.read("{}/{}/numa_maps".format(self._proc, rank.main))
        self._next_sample = now + max(_PAUSE, (time.process_time() - used) / _MAX_CPU_SHARE)
        if content is None and not procfs.names("{}/{}".format(self._proc, rank.main)):
            # The process has ended.
            return
        if content is None:
            self.missing.add("near: /proc/PID/numa_maps cannot be read")
        else:
            share = near(content, self._rank_nodes(rank))
            rank.near = rank.near if share is None else share

    def _rank_nodes(self, rank: Rank) -> FrozenSet[int]:
        """The NUMA nodes of the rank's cores; empty if these are all NUMA nodes with cores."""
        own = frozenset(node for node, cores in self._cores.items() if cores & rank.cores)
        return own if len(own) < len(self._cores) else frozenset()


def near(content: bytes, own: FrozenSet[int]) -> Optional[float]:
    """The share of a process's own memory (without the pages of files) that is on these nodes; None if it has none."""
    here = everywhere = 0
    for line in content.splitlines():
        words = line.split()
        if not any(word.startswith(b"anon=") for word in words):
            continue
        size = next((int(word[18:]) for word in words if word.startswith(b"kernelpagesize_kB=")), 4)
        for node, pages in _pages(words):
            everywhere += pages * size
            here += pages * size if node in own else 0
    return round(here / everywhere, 3) if everywhere else None


def _pages(words: List[bytes]) -> List[List[int]]:
    """Node and number of pages of the words `N0=12`."""
    pages = []
    for word in words:
        name, _, count = word.partition(b"=")
        if name[:1] == b"N" and name[1:].isdigit() and count.isdigit():
            pages.append([int(name[1:]), int(count)])
    return pages
