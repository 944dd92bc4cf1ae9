"""Errors of the node programs: a message, a remedy and an exit status, never a traceback.

`system_errors` turns each OSError inside its block into one of these.
"""

import contextlib
import errno
import os
import sys
from typing import Dict, Iterator, Optional


class NodeError(Exception):
    """A failure with a message for the user; `exit_code` is the exit status of the process.

    The message is lower case without a full stop; `help` is the remedy.
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
    """The user interrupted the command with Ctrl-C."""

    exit_code = 130

    def report(self) -> str:
        """The text for stderr, in a terminal on a new line: the terminal has printed `^C`."""
        return ("\n" if sys.stderr.isatty() else "") + super().report()


class NoSpace(NodeError):
    """The node's disk has too little space for the data set; detected before or during the copy."""


class SourceFault(NodeError):
    """The source is missing, or changed while it was copied."""


class NoParts(SourceFault):
    """A file of a server can only be read as a whole."""


class WrongHash(SourceFault):
    """A file has another hash than its server says."""


class Unreadable(SourceFault):
    """A part of the source cannot be read."""


class Unsafe(NodeError):
    """A path that another user could have planted: a link, a foreign owner, an open mode, a bad name."""


class Damaged(NodeError):
    """Data with a wrong hash, size or format."""


_FULL = (errno.ENOSPC, errno.EDQUOT)
_TEXTS: Dict[int, str] = {
    errno.EIO: "Input/output error: the disk or the file server failed",
    errno.ESTALE: "Stale file handle: the file server has removed or replaced the file",
    errno.EDQUOT: "Disk quota exceeded",
}
_HELP: Dict[int, str] = {
    errno.EIO: "see the node's kernel log; if the disk is damaged, leave the node out",
    errno.ENOSPC: "remove sets with `dlrun stage-data --evict NAME`, or stage to another disk",
    errno.EDQUOT: "remove sets with `dlrun stage-data --evict NAME`, or request a larger quota",
    errno.EROFS: "a failed disk is often remounted read-only: see the node's kernel log",
    errno.ENAMETOOLONG: "use a shorter path for the staging directory",
    errno.EMFILE: "raise the limit of open files (`ulimit -n`)",
}


def error_text(fault: OSError) -> str:
    """The text of a system error, clearer than strerror for some."""
    number = fault.errno or 0
    return _TEXTS.get(number) or (os.strerror(number) if number else str(fault) or type(fault).__name__)


def is_full(fault: OSError) -> bool:
    """Whether a system error means that the disk or a quota is full."""
    return fault.errno in _FULL


def full_disk(messages: bytes) -> Optional[str]:
    """The words of the C library with which a program has printed that the disk or a quota is full; None if it has not."""
    return next((why for why in map(os.strerror, _FULL) if why.encode() in messages), None)


def from_system(fault: OSError, doing: str) -> NodeError:
    """A NodeError for a system error; NoSpace if the disk or a quota is full. The message begins with `doing`."""
    where = fault.filename if fault.filename is not None else ""
    name = os.fsdecode(where) if isinstance(where, (bytes, str)) else ""
    message = doing + ": {}{}".format("`{}`: ".format(name) if name else "", error_text(fault))
    return (NoSpace if is_full(fault) else NodeError)(message, _HELP.get(fault.errno or 0))


@contextlib.contextmanager
def system_errors(doing: str) -> Iterator[None]:
    """Turn an OSError raised in the block into a NodeError."""
    try:
        yield
    except OSError as fault:
        raise from_system(fault, doing) from None
