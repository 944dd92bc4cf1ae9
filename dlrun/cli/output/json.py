"""`--json`: one JSON document on stdout, with a version."""

from __future__ import annotations

import json
from typing import Any

import click

VERSION = 1


def emit(kind: str, data: Any, *, one_line: bool = False) -> None:
    """Print `{"version": 1, KIND: data}`; keys are never removed within a version.

    `one_line`: print it on one line, as the end of a stream of JSON lines.
    """
    text = json.dumps({"version": VERSION, kind: data}, indent=None if one_line else 1, ensure_ascii=False)
    click.echo(text)
