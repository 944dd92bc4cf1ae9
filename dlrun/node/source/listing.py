"""What a walk finds: the entries of directories, and what cannot be copied as it is."""

import os
from typing import List, Set, Tuple


class Findings:
    """What the walk met that cannot be copied as it is, for the report.

    unreadable: (path, why); special: devices, sockets, pipes; privileged: files with a set-user-id, set-group-id
    or sticky bit; directories: those with such a bit; outside: links that lead out of the data set;
    attributes: names of attributes not copied; slow: the source made the walk wait.
    """

    def __init__(self) -> None:
        self.unreadable: List[Tuple[bytes, str]] = []
        self.special: List[bytes] = []
        self.privileged: List[bytes] = []
        self.directories: List[bytes] = []
        self.outside: List[bytes] = []
        self.attributes: Set[bytes] = set()
        self.slow = False


Status = Tuple[int, ...]  # of a file, with these places.
MODE, NLINK, SIZE, MTIME, BLOCKS, DEVICE, INODE, USER, GROUP, CTIME = range(
    10
)  # bytes; nanoseconds; of 512 bytes


def kept(status: os.stat_result) -> Status:
    """What of a file's status is kept."""
    return (
        status[0], status[3], status[6], status.st_mtime_ns, status.st_blocks, status[2], status[1],
        status[4], status[5], status.st_ctime_ns,
    )  # fmt: skip


class Listing:
    """What one directory holds: its own status, and names with their statuses in the same order."""

    def __init__(self, status: Status) -> None:
        self.status = status
        self.names: List[bytes] = []
        self.statuses: List[Status] = []

    def sort(self) -> None:
        """Put the entries in the order of their names, whatever order the file system gave."""
        if any(a > b for a, b in zip(self.names, self.names[1:])):
            order = sorted(range(len(self.names)), key=self.names.__getitem__)
            self.names = [self.names[i] for i in order]
            self.statuses = [self.statuses[i] for i in order]
