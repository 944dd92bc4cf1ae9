"""Delay signals that would end dlrun during an operation that must complete."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Kept:
    """`signal` is the first signal received in the block, or None."""

    def __init__(self) -> None:
        self.signal: int | None = None


@contextmanager
def kept_back(word: str) -> Iterator[Kept]:
    """Within the block, the first of these signals is only recorded, and `word` is printed on stderr.

    A second one raises KeyboardInterrupt. Outside of the main thread it has no effect.
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
