"""Dates in the form of ctime(3), which PBS and Grid Engine print."""

from __future__ import annotations

import re

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DATE = re.compile(r"\w{3} (\w{3}) +(\d+) (\d{2}:\d{2}:\d{2}) (\d{4})")


def from_ctime(text: str) -> str | None:
    """`Sat Nov  7 03:04:15 2026` -> `2026-11-07T03:04:15`; None for any other text."""
    # Not strptime, which reads the names of months in the language of the locale.
    match = _DATE.fullmatch(text)
    if not match or match[1] not in _MONTHS:
        return None
    return f"{match[4]}-{_MONTHS.index(match[1]) + 1:02d}-{int(match[2]):02d}T{match[3]}"
