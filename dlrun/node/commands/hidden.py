"""A hidden directory beside the caches' directory of a node, on the same file system: files there that have no place yet."""

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
from typing import IO

from ..common.safety import DIRECTORY_FLAGS, closing
from ..source.archive import Member
from ..store.remove import remove_tree

_PREFIX = ".arriving-"
_PIECE = 1 << 20  # bytes written at once
# rename(2): another job has put something there
_MADE_MEANWHILE = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR)


class Hidden:
    """A new directory, of mode 0700, for files on their way into the directory `into`; `files` and `bytes`: added. Close it.

    Raises OSError if it cannot be made. Those of jobs whose node program was killed are removed.
    """

    def __init__(self, into: str) -> None:
        self._into, self.files, self.bytes = into, 0, 0
        above = os.path.dirname(into)
        os.makedirs(above, 0o700, exist_ok=True)
        self._above = os.open(above, DIRECTORY_FLAGS)
        _lock(self._above)  # else another job could take the new directory for one that was left
        for name in os.listdir(self._above):
            if name.startswith(_PREFIX):
                self._remove_left(name)
        self.path = tempfile.mkdtemp(prefix=_PREFIX, dir=above)
        self._locked = os.open(self.path, DIRECTORY_FLAGS)
        _lock(self._locked)
        _lock(self._above, fcntl.LOCK_UN)

    def close(self) -> None:
        """Remove it, with what got no place."""
        remove_tree(self._above, os.fsencode(os.path.basename(self.path)))
        os.close(self._locked)
        os.close(self._above)

    def add(self, place: str, member: Member, content: "IO[bytes]") -> None:
        """Add a file with its mode and time, unless its place, relative to `into`, has one."""
        path = os.path.join(self.path, place)
        # Another job of this user may have compiled it meanwhile.
        if not (os.path.lexists(os.path.join(self._into, place)) or os.path.lexists(path)):
            _make_directories(self.path, os.path.dirname(place))
            with open(
                os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb"
            ) as file:
                shutil.copyfileobj(content, file, _PIECE)
                file.flush()
                os.fchmod(file.fileno(), member.mode)
                os.utime(file.fileno(), ns=(member.mtime, member.mtime))
        self.files += 1
        self.bytes += member.size

    def move(self) -> None:
        """Give each file its place, unless that has one meanwhile."""
        _move(self.path, self._into)

    def _remove_left(self, name: str) -> None:
        # In use, or on a file system without locks.
        with contextlib.suppress(OSError), closing(
            os.open(name, DIRECTORY_FLAGS, dir_fd=self._above)
        ) as left:
            fcntl.flock(left, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_tree(self._above, os.fsencode(name))


def _lock(directory: int, how: int = fcntl.LOCK_EX) -> None:
    with contextlib.suppress(OSError):  # a file system without locks: nothing that was left is removed there
        fcntl.flock(directory, how)


def _make_directories(above: str, path: str) -> None:
    """Each with mode 0700, whatever the umask is."""
    if path and not os.path.isdir(os.path.join(above, path)):
        _make_directories(above, os.path.dirname(path))
        os.mkdir(os.path.join(above, path), 0o700)


def _move(source: str, target: str) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(target, 0o700)
    for name in os.listdir(source):
        old, new = os.path.join(source, name), os.path.join(target, name)
        if not os.path.lexists(new):
            try:
                os.rename(old, new)
            except OSError as fault:
                if fault.errno not in _MADE_MEANWHILE:
                    raise
        if os.path.isdir(old):
            _move(old, new)
