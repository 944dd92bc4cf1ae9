"""Whether to colour: the flag beats the environment, the environment beats the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TextIO


def wanted(flag: str, stream: TextIO, environment: Mapping[str, str]) -> bool:
    """`always` and `never` as said; else NO_COLOR, FORCE_COLOR, and a terminal that is not dumb."""
    if flag != "auto":
        return flag == "always"
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR"):
        return True
    return stream.isatty() and environment.get("TERM") != "dumb"
