"""Sizes as PBS prints them."""

from __future__ import annotations

import re

_UNITS = {"b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40, "pb": 1 << 50}


def size(text: str) -> int | None:
    """`16gb` in bytes, `8` as 8; None for any other text."""
    match = re.fullmatch(r"(\d{1,18})([kmgtp]?b)?", text.strip().lower())
    return int(match[1]) * _UNITS[match[2] or "b"] if match else None
