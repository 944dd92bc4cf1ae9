"""What others wrote, on the user's terminal: the colours of a job's logs stay, what would steer the terminal does not."""

from __future__ import annotations

import re
import sys

_STEERING = re.compile(
    rb"\x1b\[[0-9;:?<=>]*[ -/]*[@-ln-~]"  # every sequence but colours (`m`)
    rb"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, clipboard, answers that come as if typed
    rb"|\x1b(?![\[m])|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]|\xc2[\x80-\x9f]"
)

LINES = "\n\t"
"""What `visible` keeps in text that may have several lines."""


def shown(line: bytes) -> bytes:
    """A line of a log as it may go to standard output: unchanged if that is not a terminal."""
    return _STEERING.sub(b"", line) if sys.stdout.isatty() else line


def visible(text: str, keep: str = "") -> str:
    """Text of a spec, a profile or a record with its control characters as escapes, but for those in `keep`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else repr(c)[1:-1] for c in text)


def page(text: str) -> str:
    """A script as it may go to standard output: unchanged if that is not a terminal."""
    return visible(text, LINES) if sys.stdout.isatty() else text
