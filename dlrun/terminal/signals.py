"""Handlers of the signals that end the program: each prints one line and sets the exit code.

A Ctrl-C before `install` leaves a traceback. To keep that time short, this module imports only what Python itself has loaded:
the built-in `_signal`, because `signal` imports a dozen other modules.
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


def install() -> None:
    """Handle the signals that end a program; those that are ignored (`nohup`) stay ignored."""
    try:
        if signal.getsignal(signal.SIGINT) is _end:
            return
        for number in _WORDS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _end)
    except KeyboardInterrupt:  # Ctrl-C before the handler was replaced
        _end(signal.SIGINT, None)


def begin() -> None:
    """Turn signals into KeyboardInterrupt from now on, so that `finally` blocks run."""
    install()
    _state.update(running=True, signal=0, count=0)
    sys.unraisablehook = _unraisable


def received() -> int:
    """The first signal that was received, 0 if none was."""
    return _state["signal"]


def ignore() -> None:
    """Ignore signals from now on: the exit code is decided."""
    _state["running"] = False
    for number in _WORDS:
        signal.signal(number, signal.SIG_IGN)


def report() -> int:
    """Print the message for the received signal; returns the exit code."""
    number = _state["signal"] or int(signal.SIGINT)
    # Not `contextlib.suppress`: that would be another import.
    try:  # noqa: SIM105
        os.write(2, f"{_WORDS[number]}\n".encode())
    except OSError:  # the terminal may be gone
        pass
    return 128 + number


def _end(number: int, _frame: object) -> None:
    _state["signal"] = _state["signal"] or number
    _state["count"] += 1
    # The first three leave time to clean up; the fourth ends the process at once, even if the cleanup hangs.
    if _state["running"] and _state["count"] < 4:
        raise KeyboardInterrupt
    os._exit(report())


def _unraisable(raised: "sys.UnraisableHookArgs") -> None:
    """Report exceptions of destructors, except after a signal: it is reported once, at the end."""
    if not _state["signal"]:
        sys.__unraisablehook__(raised)
