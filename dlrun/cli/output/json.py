"""`--json`: one JSON document on stdout, with a version."""

from __future__ import annotations

from typing import Any

from dlrun.cli.escapes import echo_json

VERSION = 1


def emit(kind: str, data: Any, *, one_line: bool = False) -> None:
    """Print `{"version": 1, KIND: data}`; keys are never removed within a version.

    `one_line`: print it on one line, as the end of a stream of JSON lines.
    """
    echo_json({"version": VERSION, kind: data}, indent=None if one_line else 1)
