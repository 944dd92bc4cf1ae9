"""Printing to the user's terminal: control characters from files, logs and hosts are shown as text.

Every command prints with these functions; ruff rejects `click.echo` elsewhere.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

import click

from dlrun.model.text import LINES, lazy_pattern, visible

_SEQUENCES = (
    r"\x1b\[[0-9;:?<=>]*[ -/]*[@-ln-~]"  # every sequence except colours (`m`)
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, clipboard, replies that arrive as if typed
    r"|\x1b(?!\[[0-9;:]*m)|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f\x80-\x9f]"
)
JSON_VERSION = 1
"""Version of every `--json` document; keys are never removed within a version."""

_STEERING = lazy_pattern(_SEQUENCES)
_STEERING_BYTES = lazy_pattern(_SEQUENCES.replace(r"\x80-\x9f]", r"]|\xc2[\x80-\x9f]").encode())


def echo(text: object = "", *, err: bool = False) -> None:
    """Print lines for people, their control characters as escapes, and secrets masked."""
    shown = masked(str(text))
    click.echo(visible(shown, keep=LINES), err=err)


def masked(text: str) -> str:
    """The text without secrets that are recognised by their form."""
    from dlrun.config.secret_names import without_secrets

    return without_secrets(text)


def notice(text: str) -> None:
    """Print a message on stderr; stdout is for results only."""
    echo(text, err=True)


def warn(warnings: Iterable[str]) -> None:
    """Print warnings on stderr."""
    for warning in warnings:
        notice(f"warning: {warning}")


def echo_drawn(text: str, *, err: bool = False) -> None:
    """Print dlrun's own drawing with its colours and line ends; other escape sequences are removed."""
    click.echo(_STEERING.sub("", text), err=err, nl=False, color=True)


def echo_data(text: str) -> None:
    """Print a script or comma-separated values: unchanged into a file or pipe, with escapes on a terminal."""
    if not sys.stdout.isatty():
        try:
            text.encode("utf-8")
            click.echo(text, nl=False, color=True)
        except UnicodeEncodeError:  # a path that is not UTF-8, or half of a surrogate pair from a record
            click.echo(_bytes(text), nl=False)
    else:
        click.echo(visible(text, keep=LINES), nl=False, color=True)


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace")


def emit(kind: str, data: Any, *, one_line: bool = False) -> None:
    """Print `{"version": 1, KIND: data}` for `--json`, records as objects; `one_line`: as one of several JSON lines."""
    from dlrun.model.json_codec import to_plain

    echo_json({"version": JSON_VERSION, kind: to_plain(data)}, indent=None if one_line else 1)


def echo_json(data: object, *, indent: int | None = None, sort_keys: bool = False, err: bool = False) -> None:
    """Print a JSON document."""
    click.echo(json_text(data, indent=indent, sort_keys=sort_keys), err=err)


def json_text(data: object, *, indent: int | None = None, sort_keys: bool = False) -> str:
    """A JSON document with every unprintable character as a JSON escape."""
    text = json.dumps(data, indent=indent, sort_keys=sort_keys, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def echo_log(line: bytes) -> None:
    """Print a line of a log: unchanged into a file or pipe; on a terminal without control sequences except colours."""
    sys.stdout.buffer.write(_STEERING_BYTES.sub(b"", line) if sys.stdout.isatty() else line)
