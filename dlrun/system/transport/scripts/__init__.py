"""The bash scripts for login nodes, with their arguments as assignments before them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from dlrun import resources

DIRECTORY = Path(__file__).parent
"""The directory of the scripts."""


def script(*names: str, **arguments: str | int | Sequence[str] | Mapping[str, int]) -> str:
    """The text of scripts with their arguments; sequences become arrays, mappings associative arrays."""
    lines = [_assignment(name, value) for name, value in arguments.items()]
    return "\n".join([*lines, *[resources.text(DIRECTORY / f"{name}.sh") for name in names]])


def _assignment(name: str, value: str | int | Sequence[str] | Mapping[str, int]) -> str:
    if isinstance(value, str | int):
        return f"{name}={shlex.quote(str(value))}"
    if isinstance(value, Mapping):
        pairs = " ".join(f"[{shlex.quote(key)}]={number}" for key, number in value.items())
        return f"declare -A {name}=({pairs})"
    return f"{name}=({shlex.join(value)})"
