"""Write files sent by a login node below one directory only.

The host chooses the file names, so each path is opened from a descriptor of the directory, one component at a time,
without following symbolic links, which the host may also have sent.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import BinaryIO, NamedTuple, Self, cast

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a named pipe would wait for a reader.
_WRITE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_IN_THE_WAY = (errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY, errno.ENXIO)


class Obstructed(Exception):
    """A name cannot be written: a component is a link, or the name has another file type."""


class _Place(NamedTuple):
    """Descriptor of the parent directory, owned by its `Confined`, and the last component of a name."""

    parent: int
    leaf: str


class Confined:
    """A directory, created if missing, for files with untrusted names; a context manager.

    Methods raise Obstructed or OSError; names are relative, with components separated by `/`.
    """

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._open: tuple[tuple[str, ...], int] = ((), self._root)
        """(components, descriptor) of the parent directory of the last name."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._let_go()
        os.close(self._root)

    def status(self, name: str) -> os.stat_result | None:
        """The status of a name, without following links; None if it does not exist below the directory."""
        try:
            place = self._parent(name, make=False)
            return os.stat(place.leaf, dir_fd=place.parent, follow_symlinks=False)
        except (Obstructed, FileNotFoundError):
            return None

    def open(self, name: str, *, replace: bool = True) -> BinaryIO:
        """Open a regular file for writing at offset 0: a new one, or with replace=False the existing one."""
        place = self._parent(name)
        if replace:
            self.remove(name)
        with _refusing(name):
            file = os.open(place.leaf, _WRITE | (os.O_EXCL if replace else 0), 0o666, dir_fd=place.parent)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise Obstructed(name)
        return cast("BinaryIO", os.fdopen(file, "r+b"))

    def rename(self, old: str, new: str) -> None:
        """Rename a file within its directory, replacing an existing one."""
        place = self._parent(new)
        before = PurePosixPath(old).name
        with _refusing(new):
            os.rename(before, place.leaf, src_dir_fd=place.parent, dst_dir_fd=place.parent)

    def remove(self, name: str) -> None:
        """Remove a file or link, if it exists."""
        place = self._parent(name)
        with suppress(FileNotFoundError), _refusing(name):
            os.unlink(place.leaf, dir_fd=place.parent)

    def link(self, name: str, target: str) -> None:
        """Create a symbolic link, unless its target may be outside of the directory."""
        if not _stays_below(name, target):
            raise Obstructed(name)
        place = self._parent(name)
        there = self.status(name)
        if there is not None and stat.S_ISLNK(there.st_mode):
            os.unlink(place.leaf, dir_fd=place.parent)
        with _refusing(name):
            os.symlink(target, place.leaf, dir_fd=place.parent)

    def _parent(self, name: str, *, make: bool = True) -> _Place:
        """The place of a name."""
        if not is_valid_name(name):
            raise Obstructed(name)
        *above, leaf = PurePosixPath(name).parts
        # Files arrive directory by directory: the parent is mostly the last one.
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
        return _Place(self._open[1], leaf)

    def _let_go(self) -> None:
        if self._open[1] != self._root:
            os.close(self._open[1])
        self._open = ((), self._root)


def _step(parent: int, name: str, *, make: bool) -> int:
    # An existing name may be a link or a file: O_NOFOLLOW and O_DIRECTORY refuse these.
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=parent)
    return os.open(name, _DIRECTORY, dir_fd=parent)


@contextmanager
def _refusing(name: str) -> Iterator[None]:
    """Turn errors for links and wrong file types into Obstructed."""
    try:
        yield
    except OSError as error:
        if error.errno in _IN_THE_WAY:
            raise Obstructed(name) from None
        raise


def is_valid_name(name: str) -> bool:
    """Whether a name is relative, without `..` and NUL, and not the directory itself."""
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts and "\0" not in name


def _stays_below(name: str, target: str) -> bool:
    """Whether the target of a link is below the directory, whatever other such links contain.

    `..` is allowed only at the beginning: after a name, which may be a link itself, its meaning is unknown.
    """
    parts = PurePosixPath(target).parts
    ups = 0
    while ups < len(parts) and parts[ups] == "..":
        ups += 1
    above = len(PurePosixPath(name).parts) - 1
    return (
        bool(parts) and parts[0][0] != "/" and ups <= above and ".." not in parts[ups:] and "\0" not in target
    )
