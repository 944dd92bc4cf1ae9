"""The bash scripts for login nodes; their arguments precede them as assignments."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from dlrun import resources

PLACE = Path(__file__).parent
"""The directory of the scripts."""


def script(*names: str, **given: str | int | Sequence[str] | Mapping[str, int]) -> str:
    """The text of scripts with their variables; sequences become arrays, mappings associative arrays."""
    lines = [_assignment(name, value) for name, value in given.items()]
    texts = [resources.text(PLACE / f"{name}.sh") for name in names]
    return "\n".join([*lines, *texts])


def _assignment(name: str, value: str | int | Sequence[str] | Mapping[str, int]) -> str:
    if isinstance(value, str | int):
        return f"{name}={shlex.quote(str(value))}"
    if isinstance(value, Mapping):
        pairs = " ".join(f"[{shlex.quote(key)}]={number}" for key, number in value.items())
        return f"declare -A {name}=({pairs})"
    return f"{name}=({shlex.join(value)})"
