"""Format quantities: sizes, network rates, times, curves."""

from __future__ import annotations

from collections.abc import Sequence

from dlrun.model.units import Duration

_LEVELS = "▁▂▃▄▅▆▇█"
_WIDTH = 16


def size(count: float | None) -> str:
    """`31.4 GB`; a dash for None."""
    if count is None:
        return "-"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(count) < 999.5 or unit == "TB":
            break
        count /= 1000
    return f"{count:.3g} {unit}"


def bits(rate: float | None) -> str:
    """Bytes/s as a network rate: `9.41 Gbit/s`."""
    count = 8 * (rate or 0.0)
    for unit in ("bit/s", "kbit/s", "Mbit/s"):
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} Gbit/s"


def quantity(value: float | None, unit: str) -> str:
    """`57 %`, `412 W`; a dash for None."""
    return "-" if value is None else f"{value:.0f} {unit}"


def meter(share: float, width: int = 20) -> str:
    """A share from 0 to 1 as a bar of block characters, of which at least one is full if the share is not zero."""
    full = max(1 if share > 0 else 0, min(width, round(width * share)))
    return "█" * full + "░" * (width - full)


def clock(seconds: float | None) -> str:
    """`3h5m`; a dash for None."""
    return "-" if seconds is None else str(Duration(round(seconds)))


def sparkline(curve: Sequence[tuple[float, float]], most: float | None = None) -> str:
    """A curve as at most 16 bar characters, each the mean of its time interval; most: value of a full bar."""
    if len(curve) < 2:
        return ""
    first, last = curve[0][0], curve[-1][0]
    width = min(_WIDTH, len(curve))
    sums, counts = [0.0] * width, [0] * width
    for when, value in curve:
        place = min(width - 1, int(width * (when - first) / (last - first or 1.0)))
        sums[place] += value
        counts[place] += 1
    means: list[float] = []
    for total, count in zip(sums, counts, strict=True):
        means.append(total / count if count else means[-1] if means else 0.0)
    top = most or max(means) or 1.0
    return "".join(_LEVELS[min(7, max(0, int(8 * mean / top)))] for mean in means)
