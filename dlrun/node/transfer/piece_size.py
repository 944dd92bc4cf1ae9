"""The number of bytes received before they are forwarded: few on a slow link, many on a fast one.

With pieces of LAG seconds the last of N nodes starts after N times that. Larger pieces need fewer calls, which matters
where 1 MiB takes less than LAG.
"""

LEAST, MOST = 64 << 10, 1 << 20  # bytes of a piece
LAG = 0.005  # seconds that one piece should take
QUICK, LATE = 0.7, 2.0  # multiples of LAG below which the size is doubled, and above which it is halved


class PieceSize:
    """`size` is the number of bytes of the next piece, adjusted by the times of the previous ones."""

    def __init__(self) -> None:
        self.size = LEAST

    def judge(self, amount: int, elapsed: float) -> None:
        """Adjust the size after a piece of `amount` bytes took `elapsed` seconds."""
        if elapsed < LAG * QUICK and amount >= self.size:
            self.size = min(MOST, self.size * 2)
        elif elapsed > LAG * LATE:
            self.size = max(LEAST, self.size // 2)
