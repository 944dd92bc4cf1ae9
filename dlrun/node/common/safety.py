"""Open directories and files so that another user's link or directory cannot redirect a write.

Everything below the staging directory is reached by directory descriptors, one component at a time, never
through a symbolic link; the way to it must belong to root or to us, and be closed to others' renaming.
"""

import contextlib
import errno
import os
import stat
from collections import OrderedDict
from typing import Optional

from . import text
from .errors import NodeError, Unsafe

PATH_ONLY = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
MOST_LINKS = 32


def _trusted(status: os.stat_result) -> bool:
    if status.st_uid not in (0, os.geteuid()):
        return False
    open_to_others = status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX
    return not open_to_others or stat.S_ISLNK(status.st_mode)


def _refuse(path: bytes, status: os.stat_result) -> Unsafe:
    if status.st_uid not in (0, os.geteuid()):
        return Unsafe("`{}` belongs to another user (uid {})".format(text.name(path), status.st_uid))
    return Unsafe(
        "`{}` can be changed by other users (mode {:04o})".format(text.name(path), status.st_mode & 0o7777),
        "use a directory that you own, or `chmod go-w` this one",
    )


def private_directory(path: bytes, make: bool = True) -> int:
    """A descriptor of our own directory at an absolute path, made with mode 0700 where it is missing.

    Raises Unsafe when a component of the way belongs to another user or others can rename in it, or when the
    directory itself is not ours or is writable by others; NodeError when it cannot be made.
    """
    found = _way(path, make, MOST_LINKS)
    try:
        descriptor = os.open(found, LIST)
    except OSError as fault:
        raise _cannot(found, fault) from None
    status = os.fstat(descriptor)
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        os.close(descriptor)
        raise _refuse(path, status)
    return descriptor


def _way(path: bytes, make: bool, links: int) -> bytes:
    """The path with its links resolved, every component of it safe: no other user can change it after this check."""
    reached = b""
    for part in path.split(b"/"):
        if not part:
            continue
        way = reached + b"/" + part
        try:
            if make and not os.path.lexists(way):
                with contextlib.suppress(FileExistsError):  # another process of this user may be faster
                    os.mkdir(way, 0o700)
            status = os.lstat(way)
        except OSError as fault:
            raise _cannot(way, fault) from None
        if part == b".." or not links:
            message = "`{}` is not a plain path".format(text.name(path))
            raise Unsafe(message)
        if not _trusted(status):
            raise _refuse(way, status)
        if stat.S_ISLNK(status.st_mode):
            target = os.path.normpath(os.path.join(reached or b"/", os.readlink(way)))
            reached = _way(target, make, links - 1)
        else:
            reached = way
    return reached or b"/"


def _cannot(way: bytes, fault: OSError) -> NodeError:
    why = os.strerror(fault.errno or 0)
    message = "there is no node-local storage at `{}`: {}".format(text.name(way), why)
    if fault.errno == errno.ENOTDIR:
        message = "`{}` is not a directory".format(text.name(way))
    return NodeError(
        message, "node {}; name a directory that this node can write with --to".format(os.uname().nodename)
    )


def below(root: int, relative: bytes, flags: int = PATH_ONLY) -> int:
    """A descriptor of a directory below `root`, no link followed; OSError when it is not there or is a link."""
    descriptor = root
    parts = relative.split(b"/") if relative else [b"."]
    try:
        for number, part in enumerate(parts):
            opened = os.open(part, flags if number == len(parts) - 1 else PATH_ONLY, dir_fd=descriptor)
            if descriptor != root:
                os.close(descriptor)
            descriptor = opened
    except OSError:
        if descriptor != root:
            os.close(descriptor)
        raise
    return descriptor


class Directories:
    """The last few directories below a root that one thread works in, kept open; not shared between threads."""

    def __init__(self, root: int, most: int = 8) -> None:
        self._root, self._most = root, most
        self._open: OrderedDict[bytes, int] = OrderedDict()

    def __call__(self, relative: bytes) -> int:
        """The descriptor of a directory; valid until `most` others have been asked for."""
        descriptor = self._open.get(relative)
        if descriptor is None:
            if len(self._open) >= self._most:
                os.close(self._open.popitem(last=False)[1])
            descriptor = self._open[relative] = below(self._root, relative)
        return descriptor

    def close(self) -> None:
        """Close all of them."""
        while self._open:
            os.close(self._open.popitem()[1])


def read_secret(path: str) -> bytes:
    """The job's secret from a file that only we can read; Unsafe when it is not, NodeError when it is missing."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as fault:
        message = "the secret file `{}` cannot be read: {}".format(path, fault.strerror)
        raise NodeError(message) from None
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or status.st_mode & 0o077:
            message = "the secret file `{}` is not private".format(path)
            raise Unsafe(message, "it must be owned by you, with mode 0600")
        secret = os.read(descriptor, 4096).strip()
    finally:
        os.close(descriptor)
    if len(secret) < 16:
        message = "the secret in `{}` is shorter than 16 bytes".format(path)
        raise Unsafe(message, "create one with `openssl rand -hex 32`")
    return secret


def opened(directory: int, name: bytes, flags: int, mode: int = 0o600) -> Optional[int]:
    """os.open below a directory without following a link; None when the name is not there."""
    try:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=directory)
    except FileNotFoundError:
        return None
