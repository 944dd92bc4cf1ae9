"""Help pages: every option once, under a heading, within 80 columns."""

from __future__ import annotations

import re

import click
import pytest

from dlrun.cli.main import COMMANDS, group
from dlrun.terminal.help_page import Command, examples, heading


def pages():
    """Each command that is not a group, with its help page on 80 columns."""
    for name in COMMANDS:
        found = group.get_command(click.Context(group), name)
        below = found.commands if isinstance(found, click.Group) else {"": found}
        for inner, leaf in below.items():
            context = click.Context(leaf, info_name=f"dlrun {name} {inner}".strip(), terminal_width=78)
            yield pytest.param(leaf, leaf.get_help(context), id=f"{name} {inner}".strip())


PAGES = list(pages())


@pytest.mark.parametrize(("command", "page"), PAGES)
def test_a_page_fits_80_columns_and_has_each_option_once(command, page):
    assert max(map(len, page.splitlines())) <= 80
    below = re.search(r"^(?!Usage)\S.*:$.*", page, re.MULTILINE | re.DOTALL)[0]
    listed = re.findall(r"^  (?:-\w, )?(--[\w-]+)", below, re.MULTILINE)
    shown = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
    assert len(listed) == len(set(listed)) == len(shown) + 1


@pytest.mark.parametrize(("command", "page"), PAGES)
def test_many_options_are_grouped(command, page):
    headings = re.findall(r"^(\S.*):$", page, re.MULTILINE)
    options = sum(isinstance(p, click.Option) and not p.hidden for p in command.params)
    groups = [title for title in headings if title not in ("Example", "Examples")]
    assert groups[-1] == "Options"
    assert len(groups) > 1 or options <= 9


def test_a_heading_is_for_the_options_up_to_the_next_one():
    @click.command(cls=Command, epilog=examples("tool --first", "tool --second"))
    @heading("One")
    @click.option("--first", help="a")
    @heading("Two")
    @click.option("--second", help="b")
    def tool() -> None:
        """Do it."""

    page = tool.get_help(click.Context(tool, info_name="tool"))
    assert re.search(r"One:\n  --first .*\n\nTwo:\n  --second .*\n\nOptions:\n  --help ", page)
    assert page.endswith("  Examples:\n    tool --first\n    tool --second")
