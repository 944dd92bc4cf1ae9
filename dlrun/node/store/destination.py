"""The destination of results: a directory on a shared file system, with a hidden one beside it for the unfinished copy."""

import contextlib
import fcntl
import os
import time

from ..common import system, text
from ..common.errors import NodeError, Unsafe, Usage
from ..common.safety import DIRECTORY_FLAGS
from .remove import remove_tree
from .target import TargetDirectory

_PART = b"part"


class ResultsDirectory(TargetDirectory):
    """The directory that results are copied to, existing or not; `path` is absolute.

    It holds a lock against other processes of this node. Raises NodeError if the parent directory is not writable or the
    lock is taken.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(os.fsencode(path))
        parent, self.name = os.path.split(self.path)
        if not self.name:
            raise Usage("the destination cannot be created as a directory")
        # A name for each node: all nodes of a job may copy to one destination at the same time.
        node = os.fsencode(os.uname().nodename)
        self._hidden = b".dlrun-out." + self.name + b"." + node
        try:
            self.directory = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            with contextlib.suppress(FileExistsError):
                os.mkdir(self._hidden, 0o700, dir_fd=self.directory)
            self.control = os.open(self._hidden, DIRECTORY_FLAGS, dir_fd=self.directory)
        except OSError as fault:
            raise NodeError(
                "cannot copy results to `{}`: {}".format(text.name(parent), fault.strerror),
                "its parent directory must exist and be writable",
            ) from None
        if os.fstat(self.control).st_uid != os.geteuid():
            raise Unsafe("`{}` belongs to another user".format(text.name(self._hidden)))
        try:
            fcntl.flock(self.control, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise NodeError(
                "another process is copying results to `{}` from this node".format(text.name(self.path)),
                "wait until it ends",
            ) from None

    def exists(self) -> bool:
        """Whether the destination exists, as a directory or otherwise."""
        return os.path.lexists(self.path)

    def open_unfinished(self, name: bytes) -> int:  # noqa: ARG002 - there is one
        """A descriptor of the directory of the unfinished copy."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(_PART, 0o700, dir_fd=self.control)
        return os.open(_PART, DIRECTORY_FLAGS, dir_fd=self.control)

    def publish(self, name: bytes) -> None:  # noqa: ARG002 - there is one
        """Rename the finished tree to the destination; raises NodeError if that exists by now."""
        try:
            os.rename(b"part/data", self.name, src_dir_fd=self.control, dst_dir_fd=self.directory)
        except OSError as fault:
            raise NodeError(
                "cannot create `{}`: {}".format(text.name(self.path), fault.strerror),
                "--update copies into an existing directory",
            ) from None
        self.close()

    def discard(self, directory: int, name: bytes) -> None:  # noqa: ARG002 - there is one
        """Remove the partial copy."""
        trash = "trash.{}".format(time.monotonic()).encode("ascii")
        with contextlib.suppress(FileNotFoundError):
            os.rename(_PART, trash, src_dir_fd=self.control, dst_dir_fd=self.control)
        remove_tree(self.control, trash)

    def close(self) -> None:
        """Remove the hidden directory: the copy is complete."""
        remove_tree(self.directory, self._hidden)

    def sync(self) -> None:
        """Flush the file system of the destination."""
        system.sync_file_system(self.directory)
