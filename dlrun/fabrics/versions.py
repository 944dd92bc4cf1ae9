"""Versions of libraries, and the bounds that rules put on them."""

from __future__ import annotations

import operator
import re

_COMPARE = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}


def parse(text: str) -> tuple[int, ...]:
    """`2.27.7-1` -> (2, 27, 7); raises ValueError where no number begins it."""
    match = re.match(r"v?(\d+(?:\.\d+)*)", text.strip())
    if match is None:
        raise ValueError(f"`{text}` is not a version")
    return tuple(int(part) for part in match[1].split("."))


def within(version: str | None, bounds: str) -> bool:
    """Whether a version is inside `>=2.17 <2.24`; an unknown or invalid one counts as the newest."""
    try:
        here = parse(version) if version is not None else None
    except ValueError:
        here = None
    return all(_holds(here, bound) for bound in bounds.split())


def _holds(here: tuple[int, ...] | None, bound: str) -> bool:
    sign, limit = bound[: 2 if bound[1] == "=" else 1], parse(bound.lstrip("<>="))
    if here is None:
        return sign.startswith(">")
    length = max(len(here), len(limit))
    padded = [part + (0,) * (length - len(part)) for part in (here, limit)]
    return bool(_COMPARE[sign](*padded))
