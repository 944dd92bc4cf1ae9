"""Open directories and files so that another user's link or directory cannot redirect a write.

Paths below the staging directory are opened through directory descriptors, one component at a time, without following
symbolic links; every directory above it must be owned by root or this user, and not be writable by others.
"""

import contextlib
import errno
import grp
import os
import pwd
import stat
from collections import OrderedDict
from typing import Iterator, Optional

from . import text
from .errors import NodeError, Unsafe

PATH_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
MAX_LINKS = 32


def for_this_user(path: str, flags: int) -> int:
    """An opener for files of the job directory: the umask of a program that copies modes is 0."""
    return os.open(path, flags, 0o644)


def _trusted(status: os.stat_result) -> bool:
    if status.st_uid not in (0, os.geteuid()):
        return False
    # In a sticky directory such as /tmp other users cannot rename or remove our files. A link's mode has no effect.
    return not _open_to_others(status) or bool(status.st_mode & stat.S_ISVTX) or stat.S_ISLNK(status.st_mode)


def _open_to_others(status: os.stat_result) -> bool:
    """Whether a directory's mode lets other users write: with umask 002 it lets a group, which may have this user alone."""
    if status.st_mode & 0o002:
        return True
    return bool(status.st_mode & 0o020) and not _is_private_group(status.st_gid)


def _is_private_group(number: int) -> bool:
    """Whether a group is this user's private group: of the user's name, without other members (as in Debian and Red Hat)."""
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(number)
    except KeyError:
        return False
    return user.pw_gid == number and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def _refuse(path: bytes, status: os.stat_result) -> Unsafe:
    if status.st_uid not in (0, os.geteuid()):
        return Unsafe("`{}` belongs to another user (uid {})".format(text.name(path), status.st_uid))
    return Unsafe(
        "`{}` can be changed by other users (mode {:04o})".format(text.name(path), status.st_mode & 0o7777),
        "use a directory that you own, or `chmod go-w` this one",
    )


def private_directory(path: bytes, make: bool = True) -> int:
    """A descriptor of this user's directory at an absolute path, created with mode 0700 if missing.

    Raises Unsafe if a component of the path belongs to another user or is writable by others, or if the directory itself
    is; NodeError if it cannot be created.
    """
    try:
        return open_private(path, make)
    except OSError as fault:
        raise _unusable(fault.filename or path, fault) from None


def open_private(path: bytes, make: bool = True) -> int:
    """Like `private_directory`, but raises OSError if the directory cannot be created or opened."""
    resolved = _resolve(path, make, MAX_LINKS)
    descriptor = os.open(resolved, DIRECTORY_FLAGS)
    status = os.fstat(descriptor)
    if status.st_uid != os.geteuid() or _open_to_others(status):
        os.close(descriptor)
        raise _refuse(path, status)
    return descriptor


def _resolve(path: bytes, make: bool, links: int) -> bytes:
    """The path with at most `links` links resolved and each component checked; no other user can change it afterwards."""
    resolved = b""
    for part in path.split(b"/"):
        if not part:
            continue
        component = resolved + b"/" + part
        try:
            status = os.lstat(component)
        except FileNotFoundError:
            if not make:
                raise
            # Another process of this user may create it at the same time.
            with contextlib.suppress(FileExistsError):
                os.mkdir(component, 0o700)
            status = os.lstat(component)
        if part == b".." or not links:
            raise Unsafe("`{}` is not a plain path".format(text.name(path)))
        if not _trusted(status):
            raise _refuse(component, status)
        if stat.S_ISLNK(status.st_mode):
            target = os.path.normpath(os.path.join(resolved or b"/", os.readlink(component)))
            resolved = _resolve(target, make, links - 1)
        else:
            resolved = component
    return resolved or b"/"


def _unusable(path: bytes, fault: OSError) -> NodeError:
    why = os.strerror(fault.errno or 0)
    message = "there is no node-local storage at `{}`: {}".format(text.name(path), why)
    if fault.errno == errno.ENOTDIR:
        message = "`{}` is not a directory".format(text.name(path))
    return NodeError(
        message, "node {}; name a directory that this node can write with --to".format(os.uname().nodename)
    )


def open_below(root: int, relative: bytes, flags: int = PATH_FLAGS) -> int:
    """A descriptor of a directory below `root`; OSError if it is missing or a component is a symbolic link."""
    descriptor = root
    parts = relative.split(b"/") if relative else [b"."]
    try:
        for number, part in enumerate(parts):
            opened = os.open(part, flags if number == len(parts) - 1 else PATH_FLAGS, dir_fd=descriptor)
            if descriptor != root:
                os.close(descriptor)
            descriptor = opened
    except OSError:
        if descriptor != root:
            os.close(descriptor)
        raise
    return descriptor


class DirectoryCache:
    """An LRU cache of open directories below a root, one per thread: consecutive files mostly share a directory."""

    def __init__(self, root: int, maximum: int = 8) -> None:
        self._root, self._maximum = root, maximum
        self._open: OrderedDict[bytes, int] = OrderedDict()

    def __call__(self, relative: bytes) -> int:
        """The descriptor of a directory; valid until `maximum` others have been opened."""
        descriptor = self._open.get(relative)
        if descriptor is None:
            if len(self._open) >= self._maximum:
                os.close(self._open.popitem(last=False)[1])
            descriptor = self._open[relative] = open_below(self._root, relative)
        return descriptor

    def close(self) -> None:
        """Close all of them."""
        while self._open:
            os.close(self._open.popitem()[1])


@contextlib.contextmanager
def closing(descriptor: int) -> Iterator[int]:
    """Close a descriptor at the end of the block."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read_secret(path: str) -> bytes:
    """Read the job's secret; Unsafe if others can read the file or it is too short, NodeError if it is missing."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as fault:
        raise NodeError("the secret file `{}` cannot be read: {}".format(path, fault.strerror)) from None
    with closing(descriptor):
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise Unsafe(
                "the secret file `{}` is not private".format(path), "it must be owned by you, with mode 0600"
            )
        secret = os.read(descriptor, 4096).strip()
    if len(secret) < 16:
        raise Unsafe(
            "the secret in `{}` is shorter than 16 bytes".format(path),
            "create one with `openssl rand -hex 32`",
        )
    return secret


def open_existing(directory: int, name: bytes, flags: int) -> Optional[int]:
    """os.open below a directory without following a link; None if the name does not exist."""
    try:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    except FileNotFoundError:
        return None


def read_existing(directory: int, name: bytes, most: int = -1) -> Optional[bytes]:
    """The content of such a file, its first `most` bytes (-1: all); None if there is none."""
    descriptor = open_existing(directory, name, os.O_RDONLY)
    if descriptor is None:
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read(most)


def exists(directory: int, name: bytes) -> bool:
    """Whether a directory has an entry of this name; a symbolic link counts, whether or not what it names exists."""
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
