"""Durations and sizes as PBS prints them."""

from __future__ import annotations

import re

from dlrun.model.text import digits

_UNITS = {"b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40, "pb": 1 << 50}


def seconds(text: str) -> int | None:
    """`24:05:32` in seconds; None for any other text."""
    parts = text.split(":")
    if not all(digits(part) for part in parts):
        return None
    total = 0
    for part in parts:
        total = total * 60 + int(part)
    return total


def size(text: str) -> int | None:
    """`16gb` in bytes, `8` as 8; None for any other text."""
    match = re.fullmatch(r"(\d{1,18})([kmgtp]?b)?", text.strip().lower())
    return int(match[1]) * _UNITS[match[2] or "b"] if match else None
