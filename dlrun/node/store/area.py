"""The staging directory of a node: published data sets by name, and beside them what only dlrun uses.

DIR/NAME/data/...      the data set, complete or not there at all
DIR/NAME/manifest      what it is
DIR/.dlrun/            0700: locks, half-built sets (part.NAME), records of use, what is being removed
"""

import contextlib
import errno
import fcntl
import json
import os
import re
import shlex
import time
from typing import Any, Callable, Dict, List, Optional

from ..common import system, text
from ..common.errors import NodeError, Unsafe, Usage
from ..common.safety import LIST, below, opened, private_directory
from .place import Place
from .remove import remove_tree

CONTROL = b".dlrun"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}\Z")
_POLL = 0.2  # seconds between tries of a lock that another job holds


def set_name(given: str) -> bytes:
    """The name of a data set as its directory; Usage when it cannot be one."""
    if not _NAME.match(given):
        message = "`{}` is not a valid name of a data set".format(given)
        raise Usage(message, "letters, digits, `.`, `_` and `-`, at most 128")
    return given.encode("ascii")


def boot() -> str:
    """The id of this boot of the node."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:  # a container without it: every run then counts as a new boot
        return "unknown {}".format(os.getpid())


class Lock:
    """The right to build or remove one data set; given up when closed and when the process dies."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def close(self) -> None:
        """Give it up."""
        os.close(self._descriptor)


class Area(Place):
    """An open staging directory. `shared` lets other users read the sets; else everything is 0700."""

    def __init__(self, path: str, make: bool = True, shared: bool = False) -> None:
        self.path = os.path.abspath(os.fsencode(path))
        self.directory = private_directory(self.path, make)
        if shared:
            os.fchmod(self.directory, 0o755)
        self.shared = shared
        with contextlib.suppress(FileExistsError):
            os.mkdir(CONTROL, 0o700, dir_fd=self.directory)
        self.control = self._control()
        status = os.fstat(self.control)
        if status.st_uid != os.geteuid() or status.st_mode & 0o077:
            message = "`{}` must be owned by you and have mode 0700".format(
                os.fsdecode(self.path + b"/" + CONTROL)
            )
            raise Unsafe(message)

    def _control(self) -> int:
        """The control directory, open; Unsafe where a link or a file has its name."""
        try:
            return below(self.directory, CONTROL, LIST)
        except OSError as fault:
            if fault.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise
            path = text.name(self.path + b"/" + CONTROL)
            message = "`{}` must be a directory, not a link or a file".format(path)
            way_out = (
                "`rm {}`, or use another staging directory; dlrun keeps its locks and unfinished copies there"
            )
            raise Unsafe(message, way_out.format(shlex.quote(path))) from None

    def place(self, name: bytes) -> str:
        """Where the data of a published set is."""
        return os.fsdecode(b"/".join((self.path, name, b"data")))

    def try_lock(self, name: bytes) -> Optional[Lock]:
        """The lock of a set, or None when another process has it."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(b"lock." + name, flags, 0o600, dir_fd=self.control)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return None
        return Lock(descriptor)

    def lock(self, name: bytes, patience: float, waiting: Callable[[], None]) -> Lock:
        """The lock of a set; `waiting` is called once if another has it; NodeError when it keeps it too long."""
        lock = self.try_lock(name)
        if lock is None:
            waiting()
        end = time.monotonic() + patience
        while lock is None:
            if time.monotonic() > end:
                message = "another job has been copying `{}` for {:.0f} s".format(
                    name.decode("ascii"), patience
                )
                raise NodeError(
                    message,
                    "wait until that job ends, or stage under another name",
                )
            time.sleep(_POLL)
            lock = self.try_lock(name)
        return lock

    def published(self, name: bytes) -> Optional[int]:
        """The directory of a published set, or None; Unsafe when something else has its name."""
        try:
            descriptor = os.open(name, LIST, dir_fd=self.directory)
        except FileNotFoundError:
            return None
        except OSError:
            message = "`{}` in `{}` is not a data set".format(os.fsdecode(name), os.fsdecode(self.path))
            raise Unsafe(message) from None
        if os.fstat(descriptor).st_uid != os.geteuid():
            os.close(descriptor)
            message = "the data set `{}` belongs to another user".format(os.fsdecode(name))
            raise Unsafe(message)
        return descriptor

    def part(self, name: bytes) -> int:
        """The directory in which a set is built; what an earlier run left is still in it."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(b"part." + name, 0o700, dir_fd=self.control)
        return below(self.control, b"part." + name, LIST)

    def publish(self, name: bytes) -> None:
        """Give the finished part its name, in one step; what had the name is removed."""
        if self.shared:
            os.chmod(b"part." + name, 0o755, dir_fd=self.control)  # noqa: S103 - shared on purpose
        old = self.published(name)
        if old is None:
            os.rename(b"part." + name, name, src_dir_fd=self.control, dst_dir_fd=self.directory)
            return
        os.close(old)
        if system.exchange(self.control, b"part." + name, self.directory, name):
            with contextlib.suppress(OSError):  # the next run clears it
                self.discard(self.control, b"part." + name)
        else:
            trash = self.to_trash(self.directory, name)
            os.rename(b"part." + name, name, src_dir_fd=self.control, dst_dir_fd=self.directory)
            with contextlib.suppress(OSError):
                remove_tree(self.control, trash)

    def to_trash(self, directory: int, name: bytes) -> bytes:
        """Take a name away in one step; its contents are then in the control directory under the returned name."""
        trash = "trash.{}.{}".format(os.getpid(), time.monotonic()).encode("ascii")
        os.rename(name, trash, src_dir_fd=directory, dst_dir_fd=self.control)
        return trash

    def discard(self, directory: int, name: bytes) -> None:
        """Remove a tree of ours, its name first; nothing happens when it is not there."""
        try:
            trash = self.to_trash(directory, name)
        except FileNotFoundError:
            return
        remove_tree(self.control, trash)

    def names(self) -> List[bytes]:
        """The published data sets."""
        return sorted(n for n in map(os.fsencode, os.listdir(self.directory)) if _NAME.match(os.fsdecode(n)))

    def controls(self, prefix: bytes) -> List[bytes]:
        """What has a prefix in the control directory, without it."""
        found = map(os.fsencode, os.listdir(self.control))
        return sorted(n[len(prefix) :] for n in found if n.startswith(prefix))

    def clock(self) -> float:
        """The time that a new file gets: by the file server's clock where that is not this node's; without space, by ours."""
        name = "now.{}".format(os.getpid()).encode("ascii")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self.discard(self.control, name)  # a killed one's, or its time is old
        try:
            with os.fdopen(os.open(name, flags, 0o600, dir_fd=self.control)) as file:
                now = os.fstat(file.fileno()).st_mtime
        except OSError:
            return time.time()
        self.discard(self.control, name)
        return now

    def write_record(self, name: bytes, record: Dict[str, Any]) -> None:
        """Write a small record into the control directory, in one step."""
        temporary = "new.{}".format(os.getpid()).encode("ascii")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(temporary, flags, 0o600, dir_fd=self.control), "w") as file:
            json.dump(record, file)
        os.rename(temporary, name, src_dir_fd=self.control, dst_dir_fd=self.control)

    def read_record(self, name: bytes) -> Dict[str, Any]:
        """A record; empty when it is not there or not readable."""
        descriptor = opened(self.control, name, os.O_RDONLY)
        if descriptor is None:
            return {}
        with os.fdopen(descriptor, encoding="ascii") as file:
            try:
                found = json.load(file)
            except ValueError:
                return {}
        return found if isinstance(found, dict) else {}
