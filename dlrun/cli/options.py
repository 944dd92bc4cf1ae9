"""Options that several commands share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from dlrun.cli.escapes import echo

F = TypeVar("F", bound=Callable[..., Any])


def complete_settings(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Keys and values of a spec after `--set`, for `shell_complete`."""
    from dlrun.cli.completion_values import settings

    return settings(ctx, param, incomplete)


def _sites(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from dlrun.cli.completion_values import site_names

    return site_names(ctx, param, incomplete)


def complete_jobs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Jobs, for `shell_complete`."""
    from dlrun.cli.completion_values import job_names

    return job_names(ctx, param, incomplete)


class UserPath(click.Path):
    """A path whose `~` is the home directory also where the shell leaves it, as in `--output=~/x`."""

    def __init__(self, *, file_okay: bool = True) -> None:
        super().__init__(file_okay=file_okay, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path, written out."""
        return super().convert(at_home(str(value)), param, ctx)


def at_home(name: str) -> str:
    """A path of the command line with its `~` written out."""
    if not name.startswith("~"):
        return name
    from dlrun.effects.paths import expanded

    return str(expanded(name))


def spec_options(function: F) -> F:
    """SPEC, `--site` and `--set`: the inputs of a plan."""
    for option in (
        click.option(
            "--set",
            "sets",
            multiple=True,
            metavar="KEY=VALUE",
            shell_complete=complete_settings,
            help="Set a key of the spec; `+=` appends to a list. Repeatable.",
        ),
        click.option(
            "--site",
            metavar="NAME|FILE",
            shell_complete=_sites,
            help="Site profile; default: the one in the spec, else the one of this cluster.",
        ),
        click.argument("spec", type=UserPath()),
    ):
        function = option(function)
    return function


def login_options(function: F) -> F:
    """`--host` and `--transport`: the login node of a remote submission."""
    for option in (
        click.option(
            "--transport",
            type=click.Choice(["openssh", "paramiko", "local"]),
            help="ssh implementation; default: the site's, else OpenSSH if it is installed, else paramiko.",
        ),
        click.option(
            "--host",
            metavar="LOGIN",
            help="Login node to submit from, over ssh; default: the site's, if its scheduler is not installed here.",
        ),
    ):
        function = option(function)
    return function


def json_option(function: F) -> F:
    """`--json`: one JSON document on stdout, and nothing else there."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def notice(text: str) -> None:
    """Print a message on stderr; stdout is for results only."""
    echo(text, err=True)


def for_people_only(render: str) -> None:
    """Raise Invalid if stdout is a file: a page saved alone could not run, for it needs `rank.sh` and `lib/` beside it."""
    import stat

    from dlrun.errors import Invalid

    try:
        mode = os.fstat(sys.stdout.fileno()).st_mode
    except (OSError, ValueError):
        return
    if stat.S_ISREG(mode):
        raise Invalid(
            "a job script saved in a file of its own cannot run: it needs `rank.sh` and `lib/` beside it",
            help=f"`{render} -o DIR` writes the whole job directory, to be submitted from there",
        )
