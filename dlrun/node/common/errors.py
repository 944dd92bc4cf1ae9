"""What the node programs tell a user went wrong: a message, a way out and an exit status, never a traceback."""

import sys
from typing import Optional


class NodeError(Exception):
    """A failure with a message for the user; `exit_code` is what the process ends with.

    The message is lower case and has no full stop; `help` says how to mend it.
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


class Interrupted(NodeError):
    """The user asked to end what ran, by Ctrl-C."""

    exit_code = 130

    def report(self) -> str:
        """The text for stderr; in a terminal it begins a line, after the `^C` that stands there."""
        return ("\n" if sys.stderr.isatty() else "") + super().report()


class NoSpace(NodeError):
    """The node's disk cannot hold the data set, seen before the first byte or while writing."""


class SourceFault(NodeError):
    """The source is missing, unreadable in part, or changed while it was copied."""


class Unsafe(NodeError):
    """Something that another user could have planted: a link, a foreign owner, an open mode, a bad name."""


class Damaged(NodeError):
    """Data that does not have the hash, size or format it must have."""
