"""How the entries of a source are looked at, and what is found that cannot be copied unchanged."""

import os
from typing import Callable, Dict, List, Set, Tuple

from ..common.safety import closing


class Findings:
    """Entries that cannot be copied unchanged, for the report.

    unreadable: (path, reason); special: devices, sockets, pipes; privileged, directories: files and directories with
    a set-user-id, set-group-id or sticky bit; outside: links that lead out of the data set; attributes: names of
    attributes not copied; slow: the walk mostly waited for the source; opened: path -> descriptor of the files that the
    walk of a slow source has left open; rate: entries per second of the walk.
    """

    def __init__(self) -> None:
        self.unreadable: List[Tuple[bytes, str]] = []
        self.special: List[bytes] = []
        self.privileged: List[bytes] = []
        self.directories: List[bytes] = []
        self.outside: List[bytes] = []
        self.attributes: Set[bytes] = set()
        self.slow = False
        self.rate = 0
        self.opened: Dict[bytes, int] = {}


COPIED = b"user."  # beginning of the names of attributes that are copied
BLOCK = 512  # bytes of a unit of st_blocks, independent of the file system's block size (stat(2))
Status = Tuple[int, ...]  # fields of stat(2), at these indices
# SIZE is in bytes, MTIME and CTIME are in nanoseconds, BLOCKS have 512 bytes.
MODE, NLINK, SIZE, MTIME, BLOCKS, DEVICE, INODE, USER, GROUP, CTIME = range(10)


def attributes(path: bytes, follow: bool) -> List[bytes]:
    """The names of the extended attributes of a file or directory; none if its file system has none."""
    try:
        return list(map(os.fsencode, os.listxattr(path, follow_symlinks=follow)))
    except OSError:
        return []


def open_directory(directory: bytes) -> int:
    """A descriptor for looking up names in a directory; with O_PATH no server is asked to open it."""
    return os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def statuses_in(
    directory: bytes, names: List[bytes], status_of: Callable[..., os.stat_result]
) -> List[os.stat_result]:
    """The statuses of names in a directory, by os.stat or os.lstat; raises OSError if one of them is missing.

    The path of the directory is looked up once for all names.
    """
    with closing(open_directory(directory)) as descriptor:
        return [status_of(name, dir_fd=descriptor) for name in names]
