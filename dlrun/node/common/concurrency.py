"""The number of concurrent threads of a process: increased while the rate grows, else decreased.

In a process that computes all the time, a second thread only adds contention for the interpreter lock; in one that waits
for a slow file system, thirty-two threads are thirty-two times faster.
"""

MAX = 64
BUSY = 0.75  # part of the time running or runnable, above which more threads cannot help
CROWDED = 0.9  # part of the time on a core, above which threads only wait for the interpreter lock
GAIN = 1.08  # minimum growth of the rate for a doubling to be kept
RETRY_AFTER = 20  # steps until a doubling without gain is tried again
SETTLE = 3  # steps between a halving and the next decision


class Concurrency:
    """`target` is the number of threads that may work; `step` adjusts it from the rate since the last step."""

    def __init__(self, start: int = 1, maximum: int = MAX) -> None:
        self.target, self._maximum = min(start, maximum), maximum
        self._before = 0.0  # the rate before the last change, 0 when there was none
        self._previous = self.target
        self._hold = 0

    def step(self, done: float, elapsed: float, computed: float, waited: float) -> None:
        """Adjust `target`.

        done: work since the last step, in any unit; elapsed: seconds since then; computed, waited: seconds that all threads
        together were on a core, and runnable without one.
        """
        if elapsed <= 0:
            return
        rate, busy = done / elapsed, computed / elapsed
        # The part of the time in which a thread was on a core or ready for one.
        runnable = (computed + waited) / elapsed / self.target
        # A doubling that did not increase the rate is undone, and not tried again for a while.
        if self._before and rate < self._before * GAIN and self.target > self._previous:
            self.target, self._hold = self._previous, RETRY_AFTER
        self._before = 0.0
        if self._hold:
            self._hold -= 1
        # Not `busy` alone: on an overloaded node threads are ready without computing, and more would only queue.
        elif max(busy, runnable) < BUSY and self.target < self._maximum and rate > 0:
            self._before, self._previous = rate, self.target
            self.target = min(self._maximum, self.target * 2)
        elif busy > CROWDED and self.target > 1:
            self.target = self.target // 2
            self._hold = SETTLE
