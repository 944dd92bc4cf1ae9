"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def spec_options(function: F) -> F:
    """SPEC, `--site` and `--set`: where a plan begins."""
    for option in (
        click.option(
            "--set",
            "sets",
            multiple=True,
            metavar="KEY=VALUE",
            help="Set a key of the spec; `+=` appends to a list.",
        ),
        click.option(
            "--site", metavar="NAME|FILE", help="Site profile; default: the spec's, else this cluster's."
        ),
        click.argument("spec", type=click.Path(path_type=Path)),
    ):
        function = option(function)
    return function


def login_options(function: F) -> F:
    """`--host` and `--transport`: where a job is submitted, if not here."""
    for option in (
        click.option(
            "--transport",
            type=click.Choice(["openssh", "paramiko", "local"]),
            help="How to reach the login node; default: the site's way, else ssh if it is installed.",
        ),
        click.option(
            "--host",
            metavar="LOGIN",
            help="Submit on this login node over ssh; default: the site's, if its scheduler's client is not here.",
        ),
    ):
        function = option(function)
    return function


def json_option(function: F) -> F:
    """`--json`: one document for machines on stdout, nothing else there."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def say(text: str) -> None:
    """A line for people, on stderr: stdout carries the answer only."""
    click.echo(text, err=True)
