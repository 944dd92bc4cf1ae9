"""The way to the user's terminal: whatever a file, a log or a host has in it, it is text there and steers nothing.

Every command prints with these functions; ruff refuses `click.echo` elsewhere.
"""

from __future__ import annotations

import json
import re
import sys

import click

from dlrun.model.text import LINES, visible

_STEERING = re.compile(
    r"\x1b\[[0-9;:?<=>]*[ -/]*[@-ln-~]"  # every sequence but colours (`m`)
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, clipboard, answers that come as if typed
    r"|\x1b(?!\[[0-9;:]*m)|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f\x80-\x9f]"
)
_STEERING_BYTES = re.compile(_STEERING.pattern.replace(r"\x80-\x9f]", r"]|\xc2[\x80-\x9f]").encode())


def echo(text: object = "", *, err: bool = False) -> None:
    """Print lines for people, their control characters as escapes."""
    click.echo(visible(str(text), keep=LINES), err=err)


def echo_drawn(text: str, *, err: bool = False) -> None:
    """Print what dlrun has drawn, with its colours and line ends; other sequences are left out."""
    click.echo(_STEERING.sub("", text), err=err, nl=False, color=True)


def echo_data(text: str) -> None:
    """Print a script or comma-separated values: as it is into a file or pipe, with escapes on a terminal."""
    click.echo(visible(text, keep=LINES) if sys.stdout.isatty() else text, nl=False, color=True)


def echo_json(data: object, *, indent: int | None = None, sort_keys: bool = False, err: bool = False) -> None:
    """Print a JSON document."""
    click.echo(json_text(data, indent=indent, sort_keys=sort_keys), err=err)


def json_text(data: object, *, indent: int | None = None, sort_keys: bool = False) -> str:
    """A JSON document in which every character that does not print is an escape of JSON's own."""
    text = json.dumps(data, indent=indent, sort_keys=sort_keys, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def echo_log(line: bytes) -> None:
    """Print a line of a log: as it is into a file or pipe; on a terminal it keeps its colours and nothing that steers."""
    sys.stdout.buffer.write(_STEERING_BYTES.sub(b"", line) if sys.stdout.isatty() else line)
