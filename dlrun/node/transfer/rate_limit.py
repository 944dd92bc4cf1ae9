"""Hold a copy back: a rate limit that protects a shared file system, and low priority on a shared node."""

import os
import threading
import time

from ..common.system import idle_io

BURST = 0.1  # seconds of the rate that may pass at once


class RateLimit:
    """At most `rate` bytes a second through `take`, shared by the threads of a process; 0: without limit."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._next = time.monotonic()
        self._lock = threading.Lock()

    def take(self, amount: int) -> None:
        """Wait until `amount` bytes may be moved."""
        if not self._rate:
            return
        with self._lock:
            now = time.monotonic()
            self._next = max(self._next, now - BURST) + amount / self._rate
            wait = self._next - now
        if wait > 0:
            time.sleep(wait)


def lower_priority() -> None:
    """Run below everything else on this node, on its cores and on its disks."""
    os.nice(19 - os.nice(0))
    idle_io()
