"""Remove a tree by directory descriptors, without following links, including read-only directories.

Another job of the same user may remove the same tree at the same time: missing names are not an error.
"""

import contextlib
import os
import stat
from typing import List

from ..common.fork import ForkedCall
from ..common.safety import DIRECTORY_FLAGS, closing, open_below
from ..common.system import usable_cores

MAX_HELPERS = 3  # processes besides this one


def remove_tree(parent: int, name: bytes) -> None:
    """Remove a file or a directory tree below an open directory, if it exists."""
    with contextlib.suppress(FileNotFoundError):
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if not stat.S_ISDIR(status.st_mode):
            os.unlink(name, dir_fd=parent)
            return
        if status.st_mode & 0o700 != 0o700:
            os.chmod(name, 0o700, dir_fd=parent)
        with closing(os.open(name, DIRECTORY_FLAGS, dir_fd=parent)) as directory:
            _remove_entries(directory, [os.fsencode(entry) for entry in os.listdir(directory)])
        os.rmdir(name, dir_fd=parent)


def empty_directory(parent: int, name: bytes) -> None:
    """Remove the content of a directory, which may be a large data set, by one process per core."""
    with contextlib.suppress(OSError), closing(open_below(parent, name, DIRECTORY_FLAGS)) as directory:
        os.fchmod(directory, 0o700)
        # What a version that was made in place leaves is empty directories, mostly: to start a process takes longer.
        below = [
            os.fsencode(e) for e in os.listdir(directory) if not _remove_alone(directory, os.fsencode(e))
        ]
        count = max(1, min(MAX_HELPERS + 1, usable_cores(), len(below) // 2))
        helpers = [ForkedCall(_remove_entries, directory, below[k::count]) for k in range(1, count)]
        _remove_entries(directory, below[::count])
        for helper in helpers:
            helper.result()


def _remove_entries(directory: int, names: List[bytes]) -> None:
    for name in names:
        _remove_entry(directory, name)


def _remove_entry(directory: int, name: bytes) -> None:
    if not _remove_alone(directory, name):
        remove_tree(directory, name)


def _remove_alone(directory: int, name: bytes) -> bool:
    """Remove a file or an empty directory; False if it is a directory with entries, or cannot be removed."""
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        pass
    # unlink(2) of a directory: EISDIR on Linux, EPERM as POSIX has it.
    except (IsADirectoryError, PermissionError):
        with contextlib.suppress(OSError):
            os.rmdir(name, dir_fd=directory)
            return True
        return False
    return True
