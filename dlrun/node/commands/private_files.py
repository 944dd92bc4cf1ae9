"""Open directories and files that are this user's alone, and no links, one name at a time; others are refused."""

import contextlib
import os
import stat
from typing import Optional

from ..common import text
from ..common.errors import Unsafe
from ..common.safety import DIRECTORY_FLAGS

FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def private_directory_at(name: str, path: str, above: Optional[int], make: bool = False) -> int:
    """A descriptor of a directory; path: its whole path, for the error."""
    if make:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=above)
    return _opened(name, path, above, DIRECTORY_FLAGS, stat.S_IFDIR)


def private_file(name: str, path: str, above: int) -> int:
    """A descriptor of a file, for reading; path: its whole path, for the error."""
    return _opened(name, path, above, FILE_FLAGS, stat.S_IFREG)


def _opened(name: str, path: str, above: Optional[int], flags: int, kind: int) -> int:
    seen = os.stat(name, dir_fd=above, follow_symlinks=False)
    if stat.S_IFMT(seen.st_mode) != kind or seen.st_uid != os.geteuid() or seen.st_mode & 0o077:
        raise _not_private(path, seen)
    opened = os.open(name, flags, dir_fd=above)
    if not os.path.samestat(os.fstat(opened), seen):
        os.close(opened)
        raise _not_private(path, seen)
    return opened


def _not_private(path: str, seen: os.stat_result) -> Unsafe:
    shown = text.name(os.fsencode(path))
    if seen.st_uid != os.geteuid():
        return Unsafe("`{}` belongs to another user (uid {})".format(shown, seen.st_uid))
    if stat.S_ISLNK(seen.st_mode) or not seen.st_mode & 0o077:
        return Unsafe("`{}` is not a plain path".format(shown))
    return Unsafe("`{}` can be changed by other users (mode {:04o})".format(shown, seen.st_mode & 0o7777))
