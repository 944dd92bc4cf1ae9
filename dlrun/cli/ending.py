"""The signals that end the program: each leaves one line and its exit code.

Until `watch` was called a Ctrl-C leaves a traceback. So it imports only what Python has loaded when it starts: `_signal`, which
is built in, for `signal` reads a dozen modules, which took most of that time.
"""

import _signal as signal  # type: ignore[import-not-found]
import os
import sys

_WORDS = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "ended by SIGTERM",
    signal.SIGHUP: "the terminal was closed",
}
_state = {"running": False, "signal": 0, "count": 0}


def watch() -> None:
    """Take over the signals that end a program; those that are ignored (`nohup`) stay so."""
    try:
        if signal.getsignal(signal.SIGINT) is _end:
            return
        for one in _WORDS:
            if signal.getsignal(one) is not signal.SIG_IGN:
                signal.signal(one, _end)
    except KeyboardInterrupt:  # Ctrl-C while Python's own handler was still there
        _end(signal.SIGINT, None)


def begin() -> None:
    """Turn signals into KeyboardInterrupt from now on, so that `finally` blocks run."""
    watch()
    _state.update(running=True, signal=0, count=0)
    sys.unraisablehook = _unraisable


def ended_by() -> int:
    """The signal that ends the program, 0 if none does."""
    return _state["signal"]


def over() -> None:
    """Ignore signals from now on: the outcome is final."""
    _state["running"] = False
    for one in _WORDS:
        signal.signal(one, signal.SIG_IGN)


def report() -> int:
    """Print the line of the signal that came; the exit code."""
    number = _state["signal"] or int(signal.SIGINT)
    try:  # noqa: SIM105 - contextlib is one of the modules that would be imported
        os.write(2, f"{_WORDS[number]}\n".encode())
    except OSError:  # the terminal may be gone
        pass
    return 128 + number


def _end(number: int, _frame: object) -> None:
    _state["signal"] = _state["signal"] or number
    _state["count"] += 1
    # Three signals leave time for an orderly end; the fourth ends the process at once, also out of a stuck cleanup.
    if _state["running"] and _state["count"] < 4:
        raise KeyboardInterrupt
    os._exit(report())


def _unraisable(found: "sys.UnraisableHookArgs") -> None:
    """A signal that came in a destructor: it is reported once, at the end."""
    if not _state["signal"]:
        sys.__unraisablehook__(found)
