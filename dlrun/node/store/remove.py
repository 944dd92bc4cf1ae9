"""Remove a tree by directory descriptors, without following links, including read-only directories.

Another job of the same user may remove the same tree at the same time: missing names are not an error.
"""

import contextlib
import os
import stat

from ..common.safety import DIRECTORY_FLAGS


def remove_tree(parent: int, name: bytes) -> None:
    """Remove a file or a directory tree below an open directory, if it exists."""
    with contextlib.suppress(FileNotFoundError):
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if not stat.S_ISDIR(status.st_mode):
            os.unlink(name, dir_fd=parent)
            return
        if status.st_mode & 0o700 != 0o700:
            os.chmod(name, 0o700, dir_fd=parent)
        directory = os.open(name, DIRECTORY_FLAGS, dir_fd=parent)
        try:
            for entry in os.listdir(directory):
                _remove_entry(directory, os.fsencode(entry))
        finally:
            os.close(directory)
        os.rmdir(name, dir_fd=parent)


def _remove_entry(directory: int, name: bytes) -> None:
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        pass
    # unlink(2) of a directory: EISDIR on Linux, EPERM as POSIX has it.
    except (IsADirectoryError, PermissionError):
        remove_tree(directory, name)
