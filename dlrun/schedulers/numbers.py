"""Numbers in what schedulers print."""

from __future__ import annotations


def digits(text: str) -> bool:
    """True for a whole number that `int` takes: `isdigit` alone is true of `²` and of ten thousand nines."""
    return text.isascii() and text.isdigit() and len(text) < 19
