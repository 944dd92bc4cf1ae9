"""Exceptions as messages for users, with exit codes."""

from __future__ import annotations

import errno
import os
import platform
import re
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import get_args

import click

from dlrun import __version__
from dlrun.errors import DlrunError, Interrupted, Invalid, OperationFailed
from dlrun.jobs.records.submitter import SUBMITTED
from dlrun.model.nearest import nearest
from dlrun.model.problem import InvalidFile, Problem
from dlrun.model.text import LINES, visible
from dlrun.system.paths import no_working_directory
from dlrun.system.private import state_directory
from dlrun.system.writing import replace
from dlrun.terminal import streams
from dlrun.terminal.colour import wanted
from dlrun.terminal.diagnostics import Form, as_json, report as report_problems
from dlrun.terminal.printing import echo, echo_drawn, echo_json, masked, notice
from dlrun.terminal.streams import OutputFailed

BUG = 3
"""Exit code of a bug in dlrun."""
_COMPILED = ("paramiko", "psutil")
"""Packages with compiled parts, which `dlrun.pyz` cannot contain; it uses those of the Python that runs it."""


def report(error: Exception, arguments: Sequence[str]) -> int:
    """Print an error on stderr and return the exit code; the traceback of an unexpected one goes to a log file.

    Jobs that were submitted before the error are named.
    """
    if isinstance(error, OutputFailed):
        streams.discard()
    code = _reported(_of_surroundings(error) or error, arguments)
    if isinstance(error, DlrunError) and (gone := _no_directory()) is not None:
        notice(f"{gone.message}: {gone.help}")  # the error may be about a relative path
    if not isinstance(error, Interrupted):  # which names the job
        name_submitted()
    # Closed streams are a way to say that no answer is wanted.
    return 0 if SUBMITTED and isinstance(error, OutputFailed) and error.closed else code


def name_submitted() -> None:
    """Print the ids of the jobs that this process has submitted: its answer did not arrive."""
    if SUBMITTED:
        several = len(SUBMITTED) > 1
        notice(f"the job{'s are' if several else ' is'} submitted as {', '.join(SUBMITTED)}")


_MACHINE = (
    errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EFBIG,
    errno.ENAMETOOLONG, errno.ELOOP, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.ETIMEDOUT, errno.ENODEV, errno.ENOTCONN,
)  # fmt: skip
"""Errors of the system that may meet any file, whatever dlrun does."""


def _no_directory() -> Invalid | None:
    """The error for a working directory that was deleted; None if it exists."""
    try:
        Path.cwd()
    except OSError as fault:
        return no_working_directory(fault)
    return None


def _of_surroundings(error: Exception) -> DlrunError | None:
    """The error for users, if the machine, and not dlrun, is the cause of an unexpected one."""
    if isinstance(error, MemoryError):
        return OperationFailed("out of memory")
    if (compiled := damaged_byte_code(error)) is not None:
        return OperationFailed(
            f"Python's compiled file `{compiled}` is damaged, as after a full disk",
            help=f"remove it, and Python makes it again: `rm {quote(compiled)}`",
        )
    if not isinstance(error, OSError):
        return None
    if (gone := _no_directory()) is not None:
        return gone
    if error.errno not in _MACHINE and "temporary directory" not in str(error):
        return None
    named = f"`{error.filename}`: " if error.filename else ""
    return OperationFailed(f"{named}{(error.strerror or str(error)).lower()}")


def damaged_byte_code(error: BaseException | None) -> str | None:
    """The `.pyc` file that Python failed to read, None for an error of another kind.

    Older versions of Python keep what was written of such a file where the disk or the quota is full
    (https://github.com/python/cpython/issues/126606).
    """
    for frame, _ in traceback.walk_tb(error.__traceback__ if error else None):
        # importlib is frozen: its frames have no file.
        if frame.f_code.co_name == "_compile_bytecode" and frame.f_code.co_filename.startswith("<frozen"):
            path = frame.f_locals.get("bytecode_path")
            return path if isinstance(path, str) else None
    return None


def _reported(error: Exception, arguments: Sequence[str]) -> int:
    if isinstance(error, InvalidFile):
        echo_drawn(report_problems(error, form=_error_form(arguments), colour=_colour(arguments)), err=True)
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
        words = _click_words(error)
        _print_error(words.message, words.help, error.exit_code, arguments)
        return error.exit_code
    if isinstance(error, ModuleNotFoundError) and error.name in _COMPILED:
        message = f"this needs the Python package `{error.name}`, which `{sys.executable}` does not have"
        help_ = f"`{sys.executable} -m pip install {error.name}`; `dlrun.pyz` carries no compiled packages"
        _print_error(message, help_, 2, arguments)
        return 2
    return _bug(error, arguments)


def _print_error(message: str, help: str | None, code: int, arguments: Sequence[str]) -> None:
    """Print an error in the format of `--error-format`; in JSON with the keys of a problem in a file."""
    if _error_form(arguments) != "json":
        _print_message(message, help, _colour(arguments))
        return
    problem = Problem(message=message, help=help or "")
    echo_json(as_json(problem) | {"exit_code": code}, err=True)


def _print_message(message: str, help: str | None, colour: bool) -> None:
    label = click.style("error", fg="red", bold=True) if colour else "error"
    echo_drawn(f"{label}: {visible(masked(message), keep=LINES)}\n", err=True)
    if help:
        echo(f"   = help: {help}", err=True)


def _bug(error: Exception, arguments: Sequence[str]) -> int:
    """Write the traceback to a log file that only the user can read, and print its path."""
    text = (
        f"dlrun {__version__}, Python {platform.python_version()}, {platform.platform()}, "
        f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')}\ncommand: {arguments[0] if arguments else ''}\n\n"
        + masked("".join(traceback.format_exception(error)))
    )
    # Only the last bug is kept, for the report; only its user may read it: it can contain values of the spec.
    directory = state_directory()
    try:
        if directory is None:
            raise FileNotFoundError
        log = directory / "bug.log"
        replace(log, text.encode(errors="backslashreplace"), mode=0o600)
    except OSError:
        echo(text, err=True)
        log = Path("this terminal, above")
    _print_message(
        f"this is a bug in dlrun: {type(error).__name__}: {error}",
        f"please report it with the log: {log}",
        _colour(arguments),
    )
    return BUG


def _error_form(arguments: Sequence[str]) -> Form:
    given = _option(arguments, "--error-format", "text")
    return next((form for form in get_args(Form) if form == given), "text")


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


def _instead_of_nothing(name: str, ctx: click.Context) -> str:
    """What a command may take that was given without its first argument; empty if it depends on the command."""
    if name.startswith("SPEC"):
        return f"write `{ctx.command_path} spec.yaml`, with the file of a spec; `dlrun init` writes one"
    if name.startswith("JOB"):
        return f"write `{ctx.command_path} latest`, or a job of `dlrun status --recent`"
    return ""


def _click_words(error: click.ClickException) -> DlrunError:
    """A click error, worded as dlrun's own."""
    listed = None
    if isinstance(error, click.UsageError) and error.ctx:
        listed = f"`{error.ctx.command_path} --help` shows the options"
    if isinstance(error, click.NoSuchOption):
        known = (
            [name for parameter in error.ctx.command.params for name in parameter.opts] if error.ctx else []
        )
        near = nearest(error.option_name, known or error.possibilities or [])
        way_out = "; ".join(filter(None, [near and f"the nearest is `{near}`", listed]))
        return DlrunError(f"no such option `{error.option_name}`", help=way_out or None)
    if isinstance(error, click.MissingParameter) and error.param is not None and error.ctx:
        listed = "; ".join(
            filter(None, [_instead_of_nothing(error.param.human_readable_name, error.ctx), listed])
        )
    if isinstance(error, click.BadOptionUsage) and "does not take a value" in error.message:
        listed = f"write `{error.option_name}` alone"
    if isinstance(error, click.BadOptionUsage) and "requires an argument" in error.message:
        listed = f"write its value after it: `{error.option_name} {'KEY=VALUE' if error.option_name == '--set' else 'VALUE'}`"
    message = re.sub(r"'([^']*)'", r"`\1`", error.format_message().rstrip("."))
    message = re.sub(r"is not a valid integer( range)?$", "is not a whole number", message)
    message = re.sub(r"is not a valid float( range)?$", "is not a number", message)
    first, _, rest = message.partition(" ")
    return DlrunError(f"{first.lower() if first.istitle() else first} {rest}".strip(), help=listed)
