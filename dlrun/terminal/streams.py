"""The standard streams, whose other ends are not dlrun's: each may be closed or on a full disk.

An answer that cannot be written is an error with one line; messages that cannot be written are dropped. A closed stream gets
a descriptor of its own: else the next file that is opened would be written to as stdout or stderr.
"""

import errno
import io
import os
import sys
from typing import TYPE_CHECKING

from dlrun.errors import DlrunError

if TYPE_CHECKING:
    from typing import Any, TextIO


class OutputFailed(DlrunError):
    """The answer cannot be written to stdout; `closed`: the stream is closed."""

    def __init__(self, fault: OSError) -> None:
        self.closed = fault.errno == errno.EBADF
        why = "it is closed" if self.closed else (fault.strerror or str(fault)).lower()
        super().__init__(f"cannot write to stdout: {why}")


class _Answers(io.FileIO):
    def write(self, data: "Any") -> int:
        try:
            return super().write(data)
        except BrokenPipeError:  # the reader has seen enough, which is not an error
            raise
        except OSError as fault:
            raise OutputFailed(fault) from None


class _Messages(io.FileIO):
    def write(self, data: "Any") -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def begin() -> None:
    """Open the standard streams that are closed, and let failures to write be those of this module."""
    for number, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number, and so this one. Writing to an stdout opened for reading fails as to a closed one.
            os.open(os.devnull, flags)
            if not number:
                sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = _stream(sys.stdout, 1, _Answers, "strict")
    sys.stderr = _stream(sys.stderr, 2, _Messages, "backslashreplace")


def _stream(old: "TextIO | None", number: int, kind: "type[io.FileIO]", errors: str) -> "TextIO":
    if old is not None and not isinstance(old, io.TextIOWrapper):  # replaced by a caller
        return old
    if old is not None:
        old.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(kind(number, "w", closefd=False)),
        old.encoding if old is not None else "utf-8",
        old.errors if old is not None else errors,
        line_buffering=number == 2 or os.isatty(number),
    )


def discard() -> None:
    """Write what is still to be written, and what Python flushes at its end, nowhere."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError:  # no descriptor is left (`ulimit -n`): the lowest free number is then stdout's own
        os.close(1)
        os.open(os.devnull, os.O_WRONLY)


def flushed(code: int) -> int:
    """The exit code after what is still to be written: Python itself would end with 120 where that fails."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        discard()
    except OutputFailed:
        discard()
        return code or 1
    return code
