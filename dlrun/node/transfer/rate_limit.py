"""Throttle a copy: a rate limit that protects a shared file system, and low priority on a shared node."""

import os
import threading
import time

from ..common.system import set_idle_io

BURST = 0.1  # seconds' worth of bytes that may pass at once after a pause


class RateLimit:
    """A limit of `rate` bytes/s, shared by the threads of a process; 0: no limit."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._next = time.monotonic()
        self._lock = threading.Lock()

    def acquire(self, amount: int) -> None:
        """Wait until `amount` bytes may be moved."""
        if not self._rate:
            return
        with self._lock:
            now = time.monotonic()
            self._next = max(self._next, now - BURST) + amount / self._rate
            wait = self._next - now
        # Outside of the lock: each thread has reserved its own interval, so that threads can sleep at the same time.
        if wait > 0:
            time.sleep(wait)


def lower_priority() -> None:
    """Set the lowest CPU priority (nice 19) and the idle I/O class."""
    os.nice(19 - os.nice(0))
    set_idle_io()
