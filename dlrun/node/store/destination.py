"""Where results go: a directory of the user on a shared file system, and beside it, hidden, what is half done."""

import contextlib
import fcntl
import os
import time

from ..common import system, text
from ..common.errors import NodeError, Unsafe, Usage
from ..common.safety import LIST
from .place import Place
from .remove import remove_tree

_PART = b"part"


class ResultsPlace(Place):
    """The directory that results are copied to, which may be there already or not; `path` is absolute.

    While this is open no other program of this node works on the same destination. The hidden names next to it contain the
    node, so that all nodes of a job can copy results to one directory.
    """

    def __init__(self, given: str) -> None:
        self.path = os.path.abspath(os.fsencode(given))
        parent, self.name = os.path.split(self.path)
        if not self.name:
            raise Usage("the destination cannot be created as a directory")
        node = os.fsencode(os.uname().nodename)
        self._hidden = b".dlrun-out." + self.name + b"." + node
        try:
            self.directory = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            with contextlib.suppress(FileExistsError):
                os.mkdir(self._hidden, 0o700, dir_fd=self.directory)
            self.control = os.open(self._hidden, LIST, dir_fd=self.directory)
        except OSError as fault:
            message = "cannot copy results to `{}`: {}".format(text.name(parent), fault.strerror)
            raise NodeError(message, "its parent directory must exist and be writable") from None
        if os.fstat(self.control).st_uid != os.geteuid():
            message = "`{}` belongs to another user".format(text.name(self._hidden))
            raise Unsafe(message)
        try:
            fcntl.flock(self.control, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            message = "another process is copying results to `{}` from this node".format(text.name(self.path))
            raise NodeError(message, "wait until it ends") from None

    def exists(self) -> bool:
        """Whether something has the destination's name."""
        return os.path.lexists(self.path)

    def part(self, name: bytes) -> int:  # noqa: ARG002 - there is one
        """The directory in which the copy is built."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(_PART, 0o700, dir_fd=self.control)
        return os.open(_PART, LIST, dir_fd=self.control)

    def publish(self, name: bytes) -> None:  # noqa: ARG002 - there is one
        """Give the finished tree its name, in one step; NodeError when something has that name by now."""
        try:
            os.rename(b"part/data", self.name, src_dir_fd=self.control, dst_dir_fd=self.directory)
        except OSError as fault:
            message = "cannot create `{}`: {}".format(text.name(self.path), fault.strerror)
            raise NodeError(message, "--update copies into an existing directory") from None
        self.close()

    def discard(self, directory: int, name: bytes) -> None:  # noqa: ARG002 - there is one
        """Remove the partial copy."""
        trash = "trash.{}".format(time.monotonic()).encode("ascii")
        with contextlib.suppress(FileNotFoundError):
            os.rename(_PART, trash, src_dir_fd=self.control, dst_dir_fd=self.control)
        remove_tree(self.control, trash)

    def close(self) -> None:
        """Remove the hidden directories next to the destination: everything has arrived."""
        remove_tree(self.directory, self._hidden)

    def sync(self) -> None:
        """Wait until names and data are on the disk."""
        system.sync_file_system(self.directory)
