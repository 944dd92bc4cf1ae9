"""How many bytes are received before they are passed on: few on a slow link, many on a fast one.

A node passes on what it has; with strides of LAG seconds a chain of N nodes starts in N times that. Longer ones
cost fewer calls, which is what counts where a megabyte takes less than that anyway.
"""

LEAST, MOST = 64 << 10, 1 << 20  # bytes of a stride
LAG = 0.005  # seconds that one stride should take
QUICK, LATE = 0.7, 2.0  # times LAG below which strides are doubled, and above which they are halved


class Stride:
    """The bytes of the next stride, judged by how long those before took."""

    def __init__(self) -> None:
        self.size = LEAST

    def judge(self, amount: int, elapsed: float) -> None:
        """Learn that `amount` bytes took so many seconds."""
        if elapsed < LAG * QUICK and amount >= self.size:
            self.size = min(MOST, self.size * 2)
        elif elapsed > LAG * LATE:
            self.size = max(LEAST, self.size // 2)
