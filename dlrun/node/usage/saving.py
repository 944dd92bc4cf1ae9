"""The time that a rank has spent writing checkpoints, from its open files, which are checked once a second in /proc.

The file system of the checkpoints gets no request for this. From one check to the next, the time counts if a file below
the spec's `checkpoint.path` is open for writing: the sum over many checks is right, but a save of less than a second may
be missed.
"""

import os
import time

from . import procfs

_MAX_CPU_SHARE = 0.0005
"""Share of a core that these checks may take: a program with thousands of open files is checked less often."""
_WRITES = os.O_WRONLY | os.O_RDWR


class Saving:
    """The seconds so far in which a program had a file of its checkpoints open for writing."""

    def __init__(self, place: str) -> None:
        self._place = os.path.realpath(place) if place else ""  # links of /proc have no symbolic link in them
        self._before = self._due = 0.0
        self.seconds = 0.0

    @property
    def known(self) -> bool:
        """True if the spec sets the path of the checkpoints."""
        return bool(self._place)

    def check(self, pid: int) -> None:
        """Check whether this process is saving now."""
        now = time.monotonic()
        if not self._place or now < self._due:
            return
        used = time.process_time()
        if self._before and self._is_open(pid):
            self.seconds += now - self._before
        self._before = now
        self._due = now + (time.process_time() - used) / _MAX_CPU_SHARE

    def _is_open(self, pid: int) -> bool:
        base = "/proc/{}/fd/".format(pid)
        for name in procfs.names(base):
            try:
                target = os.readlink(base + name)
            except OSError:
                continue
            inside = target == self._place or target.startswith((self._place + "/", self._place + "."))
            if inside and self._writes(pid, name):
                return True
        return False

    @staticmethod
    def _writes(pid: int, name: str) -> bool:
        for line in procfs.text("/proc/{}/fdinfo/{}".format(pid, name)).splitlines():
            if line.startswith("flags:"):
                return bool(int(line.split()[1], 8) & _WRITES)
        return False
