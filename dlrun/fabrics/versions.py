"""Library versions and their bounds in rules."""

from __future__ import annotations

import operator
import re

_COMPARE = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}


def parse(text: str) -> tuple[int, ...]:
    """`2.27.7-1` -> (2, 27, 7); raises ValueError for text that does not begin with a number."""
    match = re.match(r"v?(\d+(?:\.\d+)*)", text.strip())
    if match is None:
        raise ValueError(f"`{text}` is not a version")
    return tuple(int(part) for part in match[1].split("."))


def within(version: str | None, bounds: str) -> bool:
    """True if a version satisfies bounds such as `>=2.17 <2.24`; an unknown or invalid version counts as the newest."""
    try:
        here = parse(version) if version is not None else None
    except ValueError:
        here = None
    return all(_holds(here, bound) for bound in bounds.split())


def _holds(here: tuple[int, ...] | None, bound: str) -> bool:
    sign, limit = bound[: 2 if bound[1] == "=" else 1], parse(bound.lstrip("<>="))
    # An unknown version counts as the newest: it satisfies every lower bound and no upper one.
    if here is None:
        return sign.startswith(">")
    length = max(len(here), len(limit))
    # `2.17` and `2.17.0` are the same version; as tuples they are not equal.
    padded = [part + (0,) * (length - len(part)) for part in (here, limit)]
    return bool(_COMPARE[sign](*padded))
