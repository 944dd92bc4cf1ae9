"""The signals that end the program: each leaves one line and its exit code."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from types import FrameType

_WORDS = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "ended by SIGTERM",
    signal.SIGHUP: "the terminal was closed",
}
_state = {"running": False, "signal": 0, "count": 0}


def watch() -> None:
    """Take over the signals that end a program; those that are ignored (`nohup`) stay so."""
    if signal.getsignal(signal.SIGINT) is _end:
        return
    for one in _WORDS:
        if signal.getsignal(one) is not signal.SIG_IGN:
            signal.signal(one, _end)


def begin() -> None:
    """From now on a signal is an exception, so that what was begun is ended in order."""
    watch()
    _state.update(running=True, signal=0, count=0)
    sys.unraisablehook = _unraisable


def ended_by() -> int:
    """The signal that ends the program, 0 if none does."""
    return _state["signal"]


def over() -> None:
    """Everything is done: no signal changes the outcome any more."""
    _state["running"] = False
    for one in _WORDS:
        signal.signal(one, signal.SIG_IGN)


def report() -> int:
    """Print the line of the signal that came; the exit code."""
    number = _state["signal"] or signal.SIGINT
    with suppress(OSError):  # the terminal may be gone
        os.write(2, f"{_WORDS[signal.Signals(number)]}\n".encode())
    return 128 + number


def _end(number: int, _frame: FrameType | None) -> None:
    _state["signal"] = _state["signal"] or number
    _state["count"] += 1
    if _state["running"] and _state["count"] < 4:
        raise KeyboardInterrupt
    os._exit(report())


def _unraisable(found: sys.UnraisableHookArgs) -> None:
    """A signal that came in a destructor: it is reported once, at the end."""
    if not _state["signal"]:
        sys.__unraisablehook__(found)
