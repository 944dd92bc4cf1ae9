"""Whether output is drawn and coloured: by `--color`, else by the environment, else by the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TextIO

import click


def wanted(flag: str, stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Whether to colour: by the flag (`always`, `never`), else NO_COLOR, FORCE_COLOR, and whether it is a terminal."""
    if flag != "auto":
        return flag == "always"
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR"):
        return True
    return terminal(stream, environment)


def terminal(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """True if a stream is a terminal and `TERM` is not `dumb`."""
    return stream.isatty() and environment.get("TERM") != "dumb"


def coloured(stream: TextIO) -> bool:
    """Whether the running command colours its output to a stream."""
    context = click.get_current_context(silent=True)
    options = (context.find_root().obj or {}) if context else {}
    return wanted(options.get("color", "auto"), stream, os.environ)


def drawn(stream: TextIO | None = None) -> bool:
    """Whether tables and bars are drawn on a stream (stdout by default): a terminal, or colour that is forced."""
    stream = stream or sys.stdout
    return terminal(stream, os.environ) or coloured(stream)
