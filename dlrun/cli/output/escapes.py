"""What a job printed, on the user's terminal: its colours stay, what would steer the terminal does not."""

from __future__ import annotations

import re
import sys

_STEERING = re.compile(
    rb"\x1b\[[0-9;:?<=>]*[ -/]*[@-ln-~]"  # every sequence but colours (`m`)
    rb"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, clipboard, answers that come as if typed
    rb"|\x1b(?![\[m])|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]|\xc2[\x80-\x9f]"
)


def shown(line: bytes) -> bytes:
    """A line of a log as it may go to standard output: unchanged where that is no terminal."""
    return _STEERING.sub(b"", line) if sys.stdout.isatty() else line
