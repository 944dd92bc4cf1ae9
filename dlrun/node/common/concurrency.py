"""The number of threads of a process that have a call in flight: increased while that makes it faster, else decreased.

Where the process computes all the time, a second thread only costs (the interpreter lock); where it waits for a
slow file system, thirty-two threads are thirty-two times faster.
"""

MOST = 64
BUSY = 0.75  # part of the time on a core, or in which a thread could use one, above which more cannot help
CROWDED = 0.9  # part of the time on a core above which threads only wait for one another
GAIN = 1.08  # growth of the rate that a doubling must reach to be kept
PATIENCE = 20  # steps for which a width without gain is not tried again
SETTLE = 3  # steps after a narrowing before the next judgement


class Concurrency:
    """The number of threads that may work, judged by `step` from what was done since the last step."""

    def __init__(self, start: int = 1, most: int = MOST) -> None:
        self.target, self._most = min(start, most), most
        self._before = 0.0  # the rate before the last change, 0 when there was none
        self._previous = self.target
        self._hold = 0

    def step(self, done: float, elapsed: float, computed: float, waited: float) -> None:
        """Judge: work done (any unit), seconds that passed, seconds of all threads on a core and waiting for one."""
        if elapsed <= 0:
            return
        rate, busy = done / elapsed, computed / elapsed
        runnable = (computed + waited) / elapsed / self.target  # part of the time that a thread could compute
        if self._before and rate < self._before * GAIN and self.target > self._previous:
            self.target, self._hold = self._previous, PATIENCE
        self._before = 0.0
        if self._hold:
            self._hold -= 1
        elif max(busy, runnable) < BUSY and self.target < self._most and rate > 0:
            self._before, self._previous = rate, self.target
            self.target = min(self._most, self.target * 2)
        elif busy > CROWDED and self.target > 1:
            self.target = self.target // 2
            self._hold = SETTLE
