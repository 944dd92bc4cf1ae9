"""The bash scripts that run on login nodes. What they are given stands before them as assignments."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

PLACE = Path(__file__).parent
"""Where the scripts lie."""


def script(*names: str, **given: str | int | Sequence[str] | Mapping[str, int]) -> str:
    """Scripts by name, one after the other, with their variables set.

    A sequence becomes an array, a mapping an associative one.
    """
    lines = [_assignment(name, value) for name, value in given.items()]
    texts = [(PLACE / f"{name}.sh").read_text(encoding="utf-8") for name in names]
    return "\n".join([*lines, *texts])


def _assignment(name: str, value: str | int | Sequence[str] | Mapping[str, int]) -> str:
    if isinstance(value, str | int):
        return f"{name}={shlex.quote(str(value))}"
    if isinstance(value, Mapping):
        pairs = " ".join(f"[{shlex.quote(key)}]={number}" for key, number in value.items())
        return f"declare -A {name}=({pairs})"
    return f"{name}=({shlex.join(value)})"
