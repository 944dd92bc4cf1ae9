"""Errors of the node programs: a message, a way out and an exit status, never a traceback.

System errors become errors of dlrun here alone: `system_errors` around whatever touches files.
"""

import contextlib
import errno
import os
import sys
from typing import Dict, Iterator, Optional


class NodeError(Exception):
    """A failure with a message for the user; `exit_code` is what the process ends with.

    The message is lower case and has no full stop; `help` is the way out.
    """

    exit_code = 1

    def __init__(self, message: str, help: Optional[str] = None) -> None:
        super().__init__(message)
        self.message = message
        self.help = help

    def report(self) -> str:
        """The text for stderr, one or two lines with a final newline."""
        text = "error: {}\n".format(self.message)
        if self.help:
            text += "  = help: {}\n".format(self.help)
        return text


class Usage(NodeError):
    """The arguments are not valid; nothing was done."""

    exit_code = 2


class UserInterrupt(NodeError):
    """The user asked to end what ran, by Ctrl-C."""

    exit_code = 130

    def report(self) -> str:
        """The text for stderr; in a terminal it begins on a new line, after the `^C`."""
        return ("\n" if sys.stderr.isatty() else "") + super().report()


class NoSpace(NodeError):
    """The node's disk cannot hold the data set, seen before the first byte or while writing."""


class SourceFault(NodeError):
    """The source is missing, or changed while it was copied."""


class Unreadable(SourceFault):
    """A part of the source cannot be read."""


class Unsafe(NodeError):
    """Something that another user could have planted: a link, a foreign owner, an open mode, a bad name."""


class Damaged(NodeError):
    """Data that does not have the hash, size or format it must have."""


_FULL = (errno.ENOSPC, errno.EDQUOT)
_WORDS: Dict[int, str] = {
    errno.EIO: "Input/output error: the disk or the file server failed",
    errno.ESTALE: "Stale file handle: the file server has removed or replaced the file",
    errno.EDQUOT: "Disk quota exceeded",
}
_HELP: Dict[int, str] = {
    errno.EIO: "see the node's kernel log; if the disk is damaged, leave the node out",
    errno.ENOSPC: "remove sets with `dlrun stage-data --evict NAME`, or stage to another disk",
    errno.EDQUOT: "remove sets with `dlrun stage-data --evict NAME`, or ask for a larger quota",
    errno.EROFS: "a disk that failed is often remounted read-only: see the node's kernel log",
    errno.ENAMETOOLONG: "use a shorter path for the staging directory",
    errno.EMFILE: "raise the limit of open files (`ulimit -n`)",
}


def explained(fault: OSError) -> str:
    """A system error in words."""
    number = fault.errno or 0
    return _WORDS.get(number) or (os.strerror(number) if number else str(fault) or type(fault).__name__)


def is_full(fault: OSError) -> bool:
    """Whether a system error means that there is no space."""
    return fault.errno in _FULL


def from_system(fault: OSError, doing: str) -> NodeError:
    """The error of dlrun for a system error while `doing` something; NoSpace where the disk or a quota is full."""
    where = fault.filename if fault.filename is not None else ""
    name = os.fsdecode(where) if isinstance(where, (bytes, str)) else ""
    message = doing + ": {}{}".format("`{}`: ".format(name) if name else "", explained(fault))
    return (NoSpace if is_full(fault) else NodeError)(message, _HELP.get(fault.errno or 0))


@contextlib.contextmanager
def system_errors(doing: str) -> Iterator[None]:
    """Raise the error of dlrun for each system error that comes out of the block."""
    try:
        yield
    except OSError as fault:
        raise from_system(fault, doing) from None
