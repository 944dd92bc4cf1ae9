"""Answers for machines: one JSON document on stdout, with a version."""

from __future__ import annotations

import json
from typing import Any

import click

VERSION = 1


def emit(kind: str, data: Any) -> None:
    """Print `{"version": 1, KIND: data}`; keys are never removed within a version."""
    click.echo(json.dumps({"version": VERSION, kind: data}, indent=1, ensure_ascii=False))
