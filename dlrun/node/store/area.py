"""The staging directory of a node: published data sets by name, and dlrun's control directory.

DIR/NAME/data/...      the data set; it appears only when it is complete
DIR/NAME/manifest      its manifest
DIR/.dlrun/            mode 0700: locks, unfinished sets (part.NAME), records of use, trees being removed (trash.*)
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
from ..common.safety import DIRECTORY_FLAGS, closing, exists, open_below, private_directory, read_existing
from .others import clear_own, others
from .remove import empty_directory, remove_tree
from .target import TargetDirectory

CONTROL = b".dlrun"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}\Z")
_POLL = 0.2  # seconds between attempts to take another job's lock


def set_name(name: str) -> bytes:
    """The directory name of a data set; raises Usage for an invalid name."""
    if not _NAME.match(name):
        raise Usage(
            "`{}` is not a valid name of a data set".format(name),
            "letters, digits, `.`, `_` and `-`, at most 128",
        )
    return name.encode("ascii")


def missing(name: str, to: str) -> NodeError:
    """The error for a data set that is not published in a staging directory."""
    return NodeError(
        "there is no data set `{}` in `{}`".format(name, to), "`dlrun stage-data --list` lists them"
    )


class Lock:
    """An exclusive lock (flock) on building or removing one data set; released by `close` and by process exit."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def close(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)


class Area(TargetDirectory):
    """An open staging directory.

    make: create it if missing; shared: other users may read the sets, else all directories have mode 0700. Raises Unsafe
    if other users could change the directory or a component of its path.
    """

    def __init__(self, path: str, make: bool = True, shared: bool = False) -> None:
        self.path = os.path.abspath(os.fsencode(path))
        self.directory = private_directory(self.path, make)
        if shared:
            os.fchmod(self.directory, 0o755)
        self.shared = shared
        self.notes: List[str] = []
        try:
            os.mkdir(CONTROL, 0o700, dir_fd=self.directory)
        except FileExistsError:
            pass
        except OSError as fault:
            fault.filename = self.path + b"/" + CONTROL
            raise
        self.control = self._control()
        status = os.fstat(self.control)
        if status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise Unsafe(
                "`{}` must be owned by you and have mode 0700".format(os.fsdecode(self.path + b"/" + CONTROL))
            )

    def _control(self) -> int:
        """Open the control directory; raises Unsafe if its name is a link or a file."""
        try:
            return open_below(self.directory, CONTROL, DIRECTORY_FLAGS)
        except OSError as fault:
            if fault.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise
            path = text.name(self.path + b"/" + CONTROL)
            message = "`{}` must be a directory, not a link or a file".format(path)
            remedy = (
                "`rm {}`, or use another staging directory; dlrun keeps its locks and unfinished copies there"
            )
            raise Unsafe(message, remedy.format(shlex.quote(path))) from None

    def data_path(self, name: bytes) -> str:
        """The path of a published set's data."""
        return os.fsdecode(b"/".join((self.path, name, b"data")))

    def try_lock(self, name: bytes) -> Optional[Lock]:
        """The lock of a set, or None if another process has it."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(b"lock." + name, flags, 0o600, dir_fd=self.control)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return None
        return Lock(descriptor)

    def lock(self, name: bytes, timeout: float, waiting: Callable[[], None]) -> Lock:
        """Take the lock of a set; calls `waiting` once if another process has it; NodeError after `timeout` seconds."""
        lock = self.try_lock(name)
        if lock is None:
            waiting()
        end = time.monotonic() + timeout
        while lock is None:
            if time.monotonic() > end:
                raise NodeError(
                    "another job has been copying `{}` for {:.0f} s".format(name.decode("ascii"), timeout),
                    "wait until that job ends, or stage under another name",
                )
            time.sleep(_POLL)
            lock = self.try_lock(name)
        return lock

    def published(self, name: bytes) -> Optional[int]:
        """A descriptor of a published set's directory, or None; Unsafe if the name is a link, a file or another user's."""
        try:
            descriptor = os.open(name, DIRECTORY_FLAGS, dir_fd=self.directory)
        except FileNotFoundError:
            return None
        except OSError:
            raise Unsafe(
                "`{}` in `{}` is not a data set".format(os.fsdecode(name), os.fsdecode(self.path))
            ) from None
        if os.fstat(descriptor).st_uid != os.geteuid():
            os.close(descriptor)
            raise Unsafe("the data set `{}` belongs to another user".format(os.fsdecode(name)))
        return descriptor

    def open_unfinished(self, name: bytes) -> int:
        """A descriptor of the directory in which a set is built, with the remains of an earlier run."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(b"part." + name, 0o700, dir_fd=self.control)
        return open_below(self.control, b"part." + name, DIRECTORY_FLAGS)

    def publish(self, name: bytes) -> None:
        """Publish the finished part atomically; an older version is removed."""
        if self.shared:
            os.chmod(b"part." + name, 0o755, dir_fd=self.control)  # noqa: S103 - shared on purpose
        old = self.published(name)
        if old is not None:
            os.close(old)
            self.keep_others(name)
        if old is None or not exists(self.directory, name):
            os.rename(b"part." + name, name, src_dir_fd=self.control, dst_dir_fd=self.directory)
            return
        if system.exchange(self.control, b"part." + name, self.directory, name):
            # If the removal fails, the next run removes the rest.
            with contextlib.suppress(OSError):
                self.discard(self.control, b"part." + name)
        else:
            # The file system cannot exchange two names: the set is missing between the two renames.
            trash = self.to_trash(self.directory, name)
            os.rename(b"part." + name, name, src_dir_fd=self.control, dst_dir_fd=self.directory)
            with contextlib.suppress(OSError):
                remove_tree(self.control, trash)

    def others(self, name: bytes) -> List[bytes]:
        """The paths in a published set that dlrun did not write; empty without such a set."""
        directory = self.published(name)
        if directory is None:
            return []
        with closing(directory):
            return others(directory, name)

    def keep_others(self, name: bytes) -> None:
        """Move what dlrun did not write in a published set aside, to NAME.kept-NUMBER; without such files it stays."""
        if not self.others(name):
            return
        number = 1
        while exists(self.directory, name + b".kept-%d" % number):
            number += 1
        kept = name + b".kept-%d" % number
        # Moved as a whole, then cleared: a kill at any point loses none of them.
        os.rename(name, kept, src_dir_fd=self.directory, dst_dir_fd=self.directory)
        with closing(os.open(kept, DIRECTORY_FLAGS, dir_fd=self.directory)) as directory:
            clear_own(directory, name)
        message = "what dlrun did not write in the previous version of `{}` is kept in `{}`"
        self.notes.append(message.format(os.fsdecode(name), os.fsdecode(kept)))

    def remove_published(self, name: bytes) -> None:
        """Remove a published set, or move it aside with what dlrun did not write."""
        self.keep_others(name)
        self.discard(self.directory, name)

    def to_trash(self, directory: int, name: bytes) -> bytes:
        """Move a name to the control directory atomically; returns its name there."""
        trash = "trash.{}.{}".format(os.getpid(), time.monotonic()).encode("ascii")
        os.rename(name, trash, src_dir_fd=directory, dst_dir_fd=self.control)
        return trash

    def discard(self, directory: int, name: bytes) -> None:
        """Remove a tree, if it exists."""
        try:
            # Renamed before the removal: a kill during the removal must not leave a half-removed set under its name.
            trash = self.to_trash(directory, name)
        except FileNotFoundError:
            return
        empty_directory(self.control, trash + b"/data")
        remove_tree(self.control, trash)

    def names(self) -> List[bytes]:
        """The published data sets."""
        return sorted(n for n in map(os.fsencode, os.listdir(self.directory)) if _NAME.match(os.fsdecode(n)))

    def controls(self, prefix: bytes) -> List[bytes]:
        """The names in the control directory with a prefix, sorted, without the prefix."""
        names = map(os.fsencode, os.listdir(self.control))
        return sorted(n[len(prefix) :] for n in names if n.startswith(prefix))

    def clock(self) -> float:
        """The file system's time in seconds, which may be that of a file server; this node's time if the disk is full."""
        name = "now.{}".format(os.getpid()).encode("ascii")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        # A file that a killed process with the same id has left would give an old time.
        self.discard(self.control, name)
        try:
            with os.fdopen(os.open(name, flags, 0o600, dir_fd=self.control)) as file:
                now = os.fstat(file.fileno()).st_mtime
        except OSError:
            return time.time()
        self.discard(self.control, name)
        return now

    def write_record(self, name: bytes, record: Dict[str, Any]) -> None:
        """Write a small JSON record to the control directory atomically."""
        temporary = "new.{}".format(os.getpid()).encode("ascii")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(temporary, flags, 0o600, dir_fd=self.control), "w") as file:
                json.dump(record, file)
            os.rename(temporary, name, src_dir_fd=self.control, dst_dir_fd=self.control)
        except OSError:  # a full disk
            with contextlib.suppress(OSError):
                self.discard(self.control, temporary)
            raise

    def read_record(self, name: bytes) -> Dict[str, Any]:
        """A JSON record; empty if it is missing or damaged."""
        try:
            record = json.loads((read_existing(self.control, name) or b"{}").decode("ascii"))
        except ValueError:
            return {}
        return record if isinstance(record, dict) else {}
