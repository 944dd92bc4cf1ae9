"""Write what a login node sends below one directory, and nowhere else.

A host names the files that it gives, so every name is walked from a descriptor of the directory, one
component after the other, and no symbolic link on the way is followed: not one that the host sent a moment
ago, nor one of an earlier fetch.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import BinaryIO, Self, cast

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_IN_THE_WAY = (errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY, errno.ENXIO)


class Obstructed(Exception):
    """A name cannot be written: it leads through a link, or something of another kind has it."""


class Confined:
    """A directory, made if it is not there, that names from elsewhere are written below.

    To be used in a `with` statement. Every method raises Obstructed or OSError; `name` is relative, its
    components separated by `/`.
    """

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._open: tuple[tuple[str, ...], int] = ((), self._root)
        """The parent directory of the last name: files of one directory come one after the other."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._let_go()
        os.close(self._root)

    def status(self, name: str) -> os.stat_result | None:
        """What has this name now (links are not followed); None if nothing does, or nothing that is below."""
        try:
            parent, leaf = self._parent(name, make=False)
            return os.stat(leaf, dir_fd=parent, follow_symlinks=False)
        except (Obstructed, FileNotFoundError):
            return None

    def open(self, name: str, *, anew: bool = True) -> BinaryIO:
        """A regular file to write: an empty one, or what is there already, its position at the start."""
        parent, leaf = self._parent(name)
        if anew:
            self.remove(name)
        with _refusing(name):
            file = os.open(leaf, _WRITE | (os.O_EXCL if anew else 0), 0o666, dir_fd=parent)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise Obstructed(name)
        return cast("BinaryIO", os.fdopen(file, "r+b"))

    def rename(self, old: str, new: str) -> None:
        """Give a file its last name, in the same directory; what had that name before is gone."""
        parent, leaf = self._parent(new)
        before = PurePosixPath(old).name
        with _refusing(new):
            os.rename(before, leaf, src_dir_fd=parent, dst_dir_fd=parent)

    def remove(self, name: str) -> None:
        """Remove a file or link, if it is there."""
        parent, leaf = self._parent(name)
        with suppress(FileNotFoundError), _refusing(name):
            os.unlink(leaf, dir_fd=parent)

    def link(self, name: str, target: str) -> None:
        """Make a symbolic link that cannot lead out: up from where it is first, and only then down."""
        if not _stays_below(name, target):
            raise Obstructed(name)
        parent, leaf = self._parent(name)
        there = self.status(name)
        if there is not None and stat.S_ISLNK(there.st_mode):
            os.unlink(leaf, dir_fd=parent)
        with _refusing(name):
            os.symlink(target, leaf, dir_fd=parent)

    def _parent(self, name: str, *, make: bool = True) -> tuple[int, str]:
        """A descriptor of the directory that a name is in, which stays ours, and its last component."""
        if not proper(name):
            raise Obstructed(name)
        *above, leaf = PurePosixPath(name).parts
        if self._open[0] != tuple(above):
            self._let_go()
            current = self._root
            for part in above:
                try:
                    with _refusing(name):
                        below = _step(current, part, make=make)
                finally:
                    if current != self._root:
                        os.close(current)
                current = below
            self._open = (tuple(above), current)
        return self._open[1], leaf

    def _let_go(self) -> None:
        if self._open[1] != self._root:
            os.close(self._open[1])
        self._open = ((), self._root)


def _step(parent: int, name: str, *, make: bool) -> int:
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=parent)
    return os.open(name, _DIRECTORY, dir_fd=parent)


@contextmanager
def _refusing(name: str) -> Iterator[None]:
    """Something of another kind in the way is an Obstructed."""
    try:
        yield
    except OSError as error:
        if error.errno in _IN_THE_WAY:
            raise Obstructed(name) from None
        raise


def proper(name: str) -> bool:
    """Whether a name is relative and plain: no `..`, no NUL, not the directory itself."""
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts and "\0" not in name


def _stays_below(name: str, target: str) -> bool:
    """Whether a link of this name, wherever other such links lead, ends below the directory.

    `..` counts only before anything else: after a name, which may be a link itself, it leads who knows where.
    """
    parts = PurePosixPath(target).parts
    ups = 0
    while ups < len(parts) and parts[ups] == "..":
        ups += 1
    above = len(PurePosixPath(name).parts) - 1
    return (
        bool(parts) and parts[0][0] != "/" and ups <= above and ".." not in parts[ups:] and "\0" not in target
    )
