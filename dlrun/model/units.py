"""Quantities whose type names the unit: `Bytes` and `Duration`.

Bare numbers are rejected because they are ambiguous: `30` is minutes to Slurm, seconds to PBS, and hours to many users.
"""

from __future__ import annotations

import re

from dlrun.model.text import lazy_pattern

_SIZE = lazy_pattern(r"(\d{1,15}(?:\.\d+)?)\s*([KMGTP]?)(i?)B?", re.IGNORECASE | re.ASCII)
_SIZE_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_PARTS = lazy_pattern(r"(\d{1,12}(?:\.\d+)?)\s*(d|h|min|m|s)", re.IGNORECASE | re.ASCII)
_SECONDS = {"d": 86400, "h": 3600, "m": 60, "min": 60, "s": 1}
_CLOCK = lazy_pattern(r"(?:(\d{1,9})-)?(\d{1,12}):(\d{2}):(\d{2})", re.ASCII)


class Bytes(int):
    """A number of bytes. `4GB` is 4·10⁹, `4GiB` is 4·2³⁰ (IEC 80000-13)."""

    expected = "a size with its unit, such as `512MiB` or `1.5TB`"

    @classmethod
    def parse(cls, text: str) -> Bytes:
        """Read `512MiB`, `1.5 TB`, `100B`; raises ValueError for anything else, bare numbers too."""
        match = _SIZE.fullmatch(text.strip())
        if not match or text.strip()[-1:].isdigit():
            raise ValueError(f"`{text}` is not a size")
        number, prefix, binary = match.groups()
        return cls(round(float(number) * (1024 if binary else 1000) ** _SIZE_POWERS[prefix.upper()]))

    def __str__(self) -> str:
        """The shortest exact form, decimal or binary; otherwise rounded to one decimal."""
        # Exact forms first: rounded ones cannot be read back without loss.
        for power, prefix in ((5, "P"), (4, "T"), (3, "G"), (2, "M"), (1, "K")):
            for base, infix in ((1024, "i"), (1000, "")):
                if self and self % base**power == 0:
                    return f"{self // base**power}{prefix}{infix}B"
        if self < 1000:
            return f"{int(self)}B"
        power = min(5, (len(str(int(self))) - 1) // 3)
        return f"{self / 1000**power:.1f}{'.KMGTP'[power]}B"

    def mebibytes(self) -> int:
        """Whole MiB, rounded down: what Slurm's `M` and PBS's `mb` mean."""
        return self // 2**20


class Duration(int):
    """A span of time in seconds."""

    expected = "a time with its unit, such as `90m`, `4h`, `1d12h`, `04:00:00` or `1-12:00:00`"

    @classmethod
    def parse(cls, text: str) -> Duration:
        """Read `90m`, `1h30m`, `10:00:00` (h:mm:ss), `1-12:00:00`; raises ValueError for anything else.

        `30:00` is rejected as ambiguous: half an hour to Slurm, thirty hours to a reader.
        """
        stripped = text.strip()
        if clock := _CLOCK.fullmatch(stripped):
            days, hours, minutes, seconds = (int(part or 0) for part in clock.groups())
            if minutes < 60 and seconds < 60:
                return cls(days * 86400 + hours * 3600 + minutes * 60 + seconds)
        parts = _PARTS.findall(stripped)
        if parts and "".join(n + u for n, u in parts) == re.sub(r"\s", "", stripped):
            return cls(round(sum(float(number) * _SECONDS[unit.lower()] for number, unit in parts)))
        raise ValueError(f"`{text}` is not a time")

    def __str__(self) -> str:
        """`1d2h3m4s` without the parts that are zero."""
        rest, text = int(self), ""
        for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
            count, rest = divmod(rest, size)
            text += f"{count}{unit}" if count else ""
        return text or "0s"

    def clock(self) -> str:
        """`HH:MM:SS` with an unlimited number of hours, which Slurm and all PBS versions read alike."""
        return f"{self // 3600:02d}:{self // 60 % 60:02d}:{self % 60:02d}"


def plain(value: float) -> str:
    """A measured number with four significant digits and no exponent: `15320`, `0.0012`."""
    if abs(value) >= 1000:
        return f"{value:.0f}"
    text = f"{value:.4g}"
    return text if "e" not in text else f"{value:.10f}".rstrip("0").rstrip(".") or "0"


def many(count: int, noun: str) -> str:
    """A number with its noun: `1 node`, `2 nodes`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


_BARE = lazy_pattern(r"[0-9]+")
_TIME = lazy_pattern(r"([0-9]+):([0-9][0-9]?)(?::([0-9]+))?")
_DAYS = lazy_pattern(r"([0-9]+)-([0-9]+)(?::([0-9]+))?(?::([0-9]+))?")


def walltime(text: str) -> str:
    """A time of Slurm as a duration of the spec: bare numbers are minutes, `30:00` is minutes and seconds."""
    if _BARE.fullmatch(text):
        return f"{text}m"
    if match := _TIME.fullmatch(text):
        if match[3] is not None:
            return f"{match[1]}:{match[2]:>02}:{match[3]:>02}"
        return f"{match[1]}m" if int(match[2]) == 0 else f"{int(match[1])}m{int(match[2])}s"
    if match := _DAYS.fullmatch(text):
        return f"{match[1]}-{int(match[2]):02}:{int(match[3] or 0):02}:{int(match[4] or 0):02}"
    return text
