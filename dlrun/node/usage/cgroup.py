"""Memory and CPU time of the job's cgroup on this node, version 1 or 2.

Schedulers name it after the job: Slurm `job_ID`, OpenPBS `ID.SERVER`, Flux and systemd a scope. If the sampler is not in
such a cgroup, its cgroup may contain processes of other jobs, and the values are left out.
"""

import re
from typing import Dict, List, Optional, Tuple

from . import procfs

COLUMNS = ("cpu", "memory", "peak", "limit")
"""CPU seconds; memory in bytes: now, peak, limit (null: unknown or no limit)."""
_NAMES = re.compile(r"^(job_?\d[\w.]*|\d+(\[\d*\])?\.[\w.-]+|imp-shell-.*|flux-.*|ge_.*)$")
_NO_LIMIT = 1 << 60


class Cgroup:
    """The cgroup directories of the job; all values are None without them."""

    def __init__(
        self, words: str, membership: str = "/proc/self/cgroup", base: str = "/sys/fs/cgroup"
    ) -> None:
        self._words = [word for word in words.split() if word]
        self._places: Dict[str, str] = {}
        self._seen = 0
        for line in procfs.text(membership).splitlines():
            _, controllers, path = ([*line.split(":", 2), "", ""])[:3]
            own = self._job(path)
            if own is None:
                continue
            if not controllers:
                self._enter("v2", own, [base, base + "/unified"])
            for controller in controllers.split(","):
                if controller in ("memory", "cpuacct"):
                    self._enter(controller, own, [base + "/" + controller, base + "/cpu,cpuacct"])

    def _job(self, path: str) -> Optional[str]:
        """The part of a cgroup path up to the last component with a job's name; None without one."""
        parts = path.split("/")
        for end in range(len(parts), 0, -1):
            if _NAMES.match(parts[end - 1]) or parts[end - 1] in self._words:
                return "/".join(parts[:end])
        return None

    def _enter(self, kind: str, own: str, places: List[str]) -> None:
        for base in places:
            path = own
            # A container sees only a part of the tree, below an ancestor of the cgroup.
            while path and not procfs.names(base + path):
                path = path[path.index("/", 1) :] if "/" in path[1:] else ""
            if path:
                self._places.setdefault(kind, base + path)

    @property
    def known(self) -> bool:
        """Whether the job has a cgroup of its own on this node."""
        return bool(self._places)

    def row(self) -> List[object]:
        """The values of `COLUMNS`."""
        current, peak, limit = self._memory()
        if current is not None:
            self._seen = max(self._seen, current)
        if peak is None and self._seen:
            # Before Linux 5.19 cgroups of version 2 have no peak: it is the maximum of the samples.
            peak = self._seen
        return [self._cpu(), current, peak, limit]

    def _cpu(self) -> Optional[float]:
        if "cpuacct" in self._places:
            used = procfs.number(self._places["cpuacct"] + "/cpuacct.usage")
            return None if used is None else round(used / 1e9, 2)
        used = procfs.table(self._places.get("v2", "/nowhere") + "/cpu.stat").get("usage_usec")
        return None if used is None else round(used / 1e6, 2)

    def _memory(self) -> Tuple[Optional[int], Optional[int], Optional[int]]:
        if "memory" in self._places:
            place, words = self._places["memory"] + "/memory.", ("usage", "max_usage", "limit")
            values = [procfs.number(place + word + "_in_bytes") for word in words]
        else:
            place = self._places.get("v2", "/nowhere") + "/memory."
            values = [procfs.number(place + word) for word in ("current", "peak", "max")]
        limit = values[2] if values[2] is not None and values[2] < _NO_LIMIT else None
        return values[0], values[1], limit
