"""Options that several commands share."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from dlrun.terminal.help_page import heading

F = TypeVar("F", bound=Callable[..., Any])


def complete_jobs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Jobs of this machine, newest first, for `shell_complete`."""
    from dlrun.jobs.records import jobs

    names = ["latest", *(job.directory.name for job in jobs.all_jobs(jobs.home()))]
    return [name for name in names if name.startswith(incomplete)]


def complete_sites(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Site profiles on the search path, for `shell_complete`."""
    from dlrun.system.inputs.profiles import Machine, available

    return [name for name in available(Machine()) if name.startswith(incomplete)]


def complete_settings(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Dotted keys of a spec for `shell_complete` of `--set`, one level at a time."""
    from dlrun.config.hints import keys
    from dlrun.model.spec import Spec

    *path, last = incomplete.split(".")
    schema: type | None = Spec
    for name in path:
        key = keys(schema).get(name) if schema is not None else None
        schema = key.hint.schema if key is not None else None
    before = "".join(f"{name}." for name in path)
    return [
        f"{before}{name}{'.' if key.hint.schema is not None else '='}"
        for name, key in (keys(schema) if schema is not None else {}).items()
        if name.startswith(last)
    ]


class UserPath(click.Path):
    """A path whose `~` is expanded here too: shells do not expand it in `--output=~/x`."""

    def __init__(self, *, file_okay: bool = True) -> None:
        super().__init__(file_okay=file_okay, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path with its `~` expanded."""
        return super().convert(at_home(str(value)), param, ctx)


def at_home(name: str) -> str:
    """A path of the command line with its `~` expanded."""
    if not name.startswith("~"):
        return name
    from dlrun.system.paths import expanded

    return str(expanded(name))


def site_option(text: str) -> Callable[[F], F]:
    """`--site`, with its help text."""
    return click.option("--site", metavar="NAME|FILE", shell_complete=complete_sites, help=text)


def set_option(text: str) -> Callable[[F], F]:
    """`--set`, with its help text."""
    return click.option(
        "--set", "sets", multiple=True, metavar="KEY=VALUE", shell_complete=complete_settings, help=text
    )


def spec_options(function: F) -> F:
    """SPEC, `--site` and `--set`: the inputs of a plan."""
    for option in (
        set_option("Set a key of the spec; `+=` appends to a list. Repeatable."),
        site_option("Site profile; default: the spec's `site`, else the profile of this cluster."),
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


def force_option(function: F) -> F:
    """`--force`: an output file that exists is replaced."""
    return click.option("--force", is_flag=True, help="Replace the output file if it exists.")(function)


def json_option(function: F) -> F:
    """`--json`: one JSON document on stdout, and nothing else there."""
    return heading("Options")(click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function))


def into_file() -> bool:
    """Whether stdout is a file: a job script saved alone is for reading and comparing, since it needs `rank.sh` and `lib/`."""
    import stat

    try:
        return stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
    except (OSError, ValueError):
        return False


def seconds(_context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """A callback for `90s`, `5m`: the time in seconds."""
    if text is None:
        return None
    from dlrun.model.units import Duration

    try:
        return float(Duration.parse(text))
    except ValueError as error:
        if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
            raise click.BadParameter(
                f"`{text}` has no unit: write `{text}s`, `{text}m` or `{text}h`", param=parameter
            ) from None
        raise click.BadParameter(f"{error}: write it as `90s` or `5m`", param=parameter) from None
