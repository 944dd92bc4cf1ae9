"""The parts of a command's help page that click does not have: headings above options, and examples one per line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from dlrun.grouping import grouped

F = TypeVar("F", bound=Callable[..., Any])

_WIDEST = 30
"""Columns of the option names, as click's own pages; longer ones get a line of their own."""


class Command(click.Command):
    """A command whose help page lists its options under the headings that `heading` set."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, a section per heading, all with the same column of descriptions."""
        sections: dict[str, list[tuple[str, str]]] = grouped(
            (getattr(param, "heading", "Options"), record)
            for param in self.get_params(ctx)
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)) is not None
        )
        width = min(_WIDEST, max(len(name) for rows in sections.values() for name, _ in rows))
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, text in rows])


def heading(title: str) -> Callable[[F], F]:
    """A heading above the options that follow this decorator, up to the next heading."""

    def mark(function: F) -> F:
        # Decorators apply from the bottom up: the options below the next heading have theirs already.
        for option in getattr(function, "__click_params__", ()):
            option.heading = getattr(option, "heading", title)
        return function

    return mark


def examples(*commands: str) -> str:
    """The end of a help page: each example on a line of its own, not wrapped, so that it can be copied."""
    title = "Examples" if len(commands) > 1 else "Example"
    return "\n".join(["\b", f"{title}:", *(f"  {command}" for command in commands)])
