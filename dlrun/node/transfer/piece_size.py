"""The number of bytes received before they are forwarded: few on a slow link, many on a fast one.

If a piece takes TARGET_SECONDS, the last of N nodes starts after N times that. Larger pieces need fewer system calls, which
matters on links that transfer 1 MiB in less time.
"""

MIN, MAX = 64 << 10, 1 << 20  # bytes of a piece
TARGET_SECONDS = 0.005  # seconds that one piece should take
# Multiples of TARGET_SECONDS below which the size is doubled, and above which it is halved.
DOUBLE_BELOW, HALVE_ABOVE = (0.7, 2.0)


class PieceSize:
    """`size` is the number of bytes of the next piece, adjusted by the times of the previous ones."""

    def __init__(self) -> None:
        self.size = MIN

    def adjust(self, amount: int, elapsed: float) -> None:
        """Adjust the size after a piece of `amount` bytes took `elapsed` seconds."""
        if elapsed < TARGET_SECONDS * DOUBLE_BELOW and amount >= self.size:
            self.size = min(MAX, self.size * 2)
        elif elapsed > TARGET_SECONDS * HALVE_ABOVE:
            self.size = max(MIN, self.size // 2)
