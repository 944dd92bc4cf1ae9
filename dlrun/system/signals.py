"""Delay signals that would end dlrun during an operation that must complete."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Received:
    """`signal` is the first signal received in the block, or None."""

    def __init__(self) -> None:
        self.signal: int | None = None


@contextmanager
def delayed_signals(message: str) -> Iterator[Received]:
    """Within the block, the first of the signals `ENDING` is only recorded, and `message` is printed on stderr.

    A second one raises KeyboardInterrupt. Outside of the main thread nothing is changed: only that may set handlers.
    """
    received = Received()
    if threading.current_thread() is not threading.main_thread():
        yield received
        return

    def note(number: int, _frame: FrameType | None) -> None:
        if received.signal is not None:
            raise KeyboardInterrupt
        received.signal = number
        with suppress(OSError):  # the terminal may be gone
            os.write(2, f"{message}\n".encode())

    before: dict[signal.Signals, Callable[[int, FrameType | None], object] | int | None] = {}
    for ending in ENDING:
        # Under `nohup` SIGHUP is ignored, and stays so.
        if signal.getsignal(ending) is not signal.SIG_IGN:
            before[ending] = signal.signal(ending, note)
    try:
        yield received
    finally:
        for ending, handler in before.items():
            signal.signal(ending, handler)
