"""Dates in the form of ctime(3), which PBS and Grid Engine print, and durations as Slurm and PBS print them."""

from __future__ import annotations

import re

from dlrun.model.text import lazy_pattern

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_CLOCK = lazy_pattern(r"(?:(?:(?:(\d{1,5})-)?(\d{1,9}):)?(\d{1,9}):)?(\d{1,18})", re.ASCII)
_DATE = lazy_pattern(r"\w{3} (\w{3}) +(\d+) (\d{2}:\d{2}:\d{2}) (\d{4})")


def from_ctime(text: str) -> str | None:
    """`Sat Nov  7 03:04:15 2026` -> `2026-11-07T03:04:15`; None for any other text."""
    # Not strptime, which reads the names of months in the language of the locale.
    match = _DATE.fullmatch(text)
    if not match or match[1] not in _MONTHS:
        return None
    return f"{match[4]}-{_MONTHS.index(match[1]) + 1:02d}-{int(match[2]):02d}T{match[3]}"


def seconds(text: str) -> int | None:
    """`1-02:03:04`, `26:03:04`, `03:04` or `4` in seconds; None for any other text, such as `UNLIMITED`."""
    match = _CLOCK.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes, rest = (int(part or 0) for part in match.groups())
    return 86400 * days + 3600 * hours + 60 * minutes + rest
