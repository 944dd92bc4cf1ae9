"""Signals that would end dlrun, kept back while something must not be left half done."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Kept:
    """What came meanwhile: `signal` is the first one."""

    def __init__(self) -> None:
        self.signal: int | None = None


@contextmanager
def kept_back(word: str) -> Iterator[Kept]:
    """Until the end of the block, the first of these signals is only noted, and `word` is printed.

    A second one ends the block by KeyboardInterrupt. Outside of the main thread nothing is kept back.
    """
    kept = Kept()
    if threading.current_thread() is not threading.main_thread():
        yield kept
        return

    def note(number: int, _frame: FrameType | None) -> None:
        if kept.signal is not None:
            raise KeyboardInterrupt
        kept.signal = number
        with suppress(OSError):  # the terminal may be gone
            os.write(2, f"{word}\n".encode())

    before: dict[signal.Signals, Callable[[int, FrameType | None], object] | int | None] = {}
    for one in ENDING:
        if signal.getsignal(one) is not signal.SIG_IGN:  # `nohup` stays what it is
            before[one] = signal.signal(one, note)
    try:
        yield kept
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
