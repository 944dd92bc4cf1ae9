"""Exceptions as messages for users, with exit codes."""

from __future__ import annotations

import os
import platform
import re
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

import click

from dlrun import __version__
from dlrun.cli.diagnostics import as_json
from dlrun.cli.diagnostics import report as report_problems
from dlrun.cli.output.colour import wanted
from dlrun.cli.printing import echo, echo_drawn, echo_json
from dlrun.errors import DlrunError, Interrupted
from dlrun.model.nearest import nearest
from dlrun.model.problem import InvalidFile, Problem
from dlrun.model.text import LINES, visible

BUG = 3
"""Exit code of a bug in dlrun."""
_COMPILED = ("paramiko", "psutil")
"""Packages with compiled parts, which `dlrun.pyz` cannot contain; it uses those of the Python that runs it."""


def report(error: Exception, arguments: Sequence[str]) -> int:
    """Print an error on stderr and return the exit code; the traceback of an unexpected one goes to a log file."""
    if isinstance(error, InvalidFile):
        form = _option(arguments, "--error-format", "text")
        echo_drawn(report_problems(error, form=form, colour=_colour(arguments)), err=True)
        return error.exit_code
    if isinstance(error, DlrunError):
        if isinstance(error, Interrupted):
            # The terminal shows `^C` without a line break.
            echo(err=True)
        _print_error(error.message, error.help, error.exit_code, arguments)
        return error.exit_code
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        echo(error.format_message(), err=True)
        return error.exit_code
    if isinstance(error, click.ClickException):
        _print_error(*_click_words(error), error.exit_code, arguments)
        return error.exit_code
    if isinstance(error, ModuleNotFoundError) and error.name in _COMPILED:
        message = f"this needs the Python package `{error.name}`, which `{sys.executable}` does not have"
        help_ = f"`{sys.executable} -m pip install {error.name}`; `dlrun.pyz` carries no compiled packages"
        _print_error(message, help_, 2, arguments)
        return 2
    return _bug(error, arguments)


def _print_error(message: str, help: str | None, code: int, arguments: Sequence[str]) -> None:
    """Print an error in the format of `--error-format`; in JSON with the keys of a problem in a file."""
    if _option(arguments, "--error-format", "text") != "json":
        _print_message(message, help, _colour(arguments))
        return
    problem = Problem(message=message, help=help or "")
    echo_json(as_json(problem) | {"exit_code": code}, err=True)


def _print_message(message: str, help: str | None, colour: bool) -> None:
    label = click.style("error", fg="red", bold=True) if colour else "error"
    echo_drawn(f"{label}: {visible(message, keep=LINES)}\n", err=True)
    if help:
        echo(f"   = help: {help}", err=True)


def _bug(error: Exception, arguments: Sequence[str]) -> int:
    """Write the traceback to a log file that only the user can read, and print its path."""
    log = Path(os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()) / "dlrun" / "bug.log"
    text = (
        f"dlrun {__version__}, Python {platform.python_version()}, {platform.platform()}, "
        f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')}\ncommand: {arguments[0] if arguments else ''}\n\n"
        + "".join(traceback.format_exception(error))
    )
    # Only the last bug is kept, for the report; only its user may read it: it can contain values of the spec.
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
            stream.write(text)
    except OSError:
        echo(text, err=True)
        log = Path("this terminal, above")
    _print_message(
        f"this is a bug in dlrun: {type(error).__name__}: {error}",
        f"please report it with the log: {log}",
        _colour(arguments),
    )
    return BUG


def _option(arguments: Sequence[str], name: str, default: str) -> str:
    """The value of a global option, read from the arguments: click's context does not exist any more."""
    for position, argument in enumerate(arguments):
        if argument == name and position + 1 < len(arguments):
            return arguments[position + 1]
        if argument.startswith(f"{name}="):
            return argument.partition("=")[2]
    return default


def _colour(arguments: Sequence[str]) -> bool:
    return wanted(_option(arguments, "--color", "auto"), sys.stderr, os.environ)


def _click_words(error: click.ClickException) -> tuple[str, str | None]:
    """Message and help of a click error, worded as dlrun's own errors."""
    listed = None
    if isinstance(error, click.UsageError) and error.ctx:
        listed = f"`{error.ctx.command_path} --help` shows the options"
    if isinstance(error, click.NoSuchOption):
        near = nearest(error.option_name, error.possibilities or [])
        way_out = "; ".join(filter(None, [near and f"the nearest is `{near}`", listed]))
        return f"no such option `{error.option_name}`", way_out or None
    message = re.sub(r"'([^']*)'", r"`\1`", error.format_message().rstrip("."))
    message = re.sub(r"is not a valid integer( range)?$", "is not a whole number", message)
    message = re.sub(r"is not a valid float( range)?$", "is not a number", message)
    first, _, rest = message.partition(" ")
    return f"{first.lower() if first.istitle() else first} {rest}".strip(), listed
