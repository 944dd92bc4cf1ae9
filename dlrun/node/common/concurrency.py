"""The number of concurrent threads of a process, increased while the rate grows, else decreased.

In a process that is always computing, a second thread only costs (the interpreter lock); in one that waits for a slow
file system, thirty-two threads are thirty-two times faster.
"""

MOST = 64
BUSY = 0.75  # part of the time running or runnable, above which more threads cannot help
CROWDED = 0.9  # part of the time on a core, above which threads only wait for the interpreter lock
GAIN = 1.08  # minimum growth of the rate for a doubling to be kept
PATIENCE = 20  # steps until a doubling without gain is tried again
SETTLE = 3  # steps between a halving and the next decision


class Concurrency:
    """`target` is the number of threads that may work; `step` adjusts it from the rate since the last step."""

    def __init__(self, start: int = 1, most: int = MOST) -> None:
        self.target, self._most = min(start, most), most
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
        runnable = (computed + waited) / elapsed / self.target  # part of the time that a thread could compute
        if self._before and rate < self._before * GAIN and self.target > self._previous:
            self.target, self._hold = self._previous, PATIENCE
        self._before = 0.0
        if self._hold:
            self._hold -= 1
        # `runnable` too: on an overloaded node threads are ready without computing, and more would only queue.
        elif max(busy, runnable) < BUSY and self.target < self._most and rate > 0:
            self._before, self._previous = rate, self.target
            self.target = min(self._most, self.target * 2)
        elif busy > CROWDED and self.target > 1:
            self.target = self.target // 2
            self._hold = SETTLE
