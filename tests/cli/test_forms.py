"""Forms of a command: `plan --script` is what `render` was, with the same options, and the former name still works."""

from __future__ import annotations

import shlex

import click
import pytest

from dlrun.cli.forms import FORMER, FORMS
from dlrun.cli.main import group

SPEC = "name: run\ncommand: [./train]\nsite: workstation\nresources: {walltime: 1h}\n"
FORMED = [(name, option, form) for name, forms in FORMS.items() for option, form in forms.items()]


def resolved(line: str) -> tuple[str | None, click.Command | None, list[str]]:
    """What dlrun runs for a command line."""
    return group.resolve_command(click.Context(group), shlex.split(line))


@pytest.mark.parametrize(("name", "option", "form"), FORMED, ids=FORMER)
def test_a_form_is_the_former_command(name, option, form):
    (former, command, rest) = resolved(f"{form.former} a --x b")
    assert (former, rest) == (form.former, ["a", "--x", "b"])
    assert command.hidden
    assert resolved(f"{name} {option} a --x b") == (f"{name} {option}", command, ["a", "--x", "b"])


@pytest.mark.parametrize(("name", "option", "form"), FORMED, ids=FORMER)
def test_the_help_of_a_command_names_its_forms(name, option, form):
    command = group.get_command(click.Context(group), name)
    page = " ".join(command.get_help(click.Context(command, info_name=name)).split())
    assert f"`dlrun {name} {option} --help`" in page
    assert not command.hidden


@pytest.mark.parametrize(
    ("line", "runs", "rest"),
    [
        ("plan s.yaml --script -o DIR", "plan --script", "s.yaml -o DIR"),
        ("plan --set --script s.yaml", "plan", None),  # the value of an option
        ("plan -- --script", "plan", None),
        ("plan --script=yes s.yaml", "plan", None),  # an option without a value
        ("init --from=job.sh -o s.yaml", "init --from", "job.sh -o s.yaml"),
        ("init --from job.sh -- --from x", "init --from", "job.sh -- --from x"),
        ("ps --recent", "ps --recent", ""),
        ("shell --rank 2 --tunnel latest 80", "shell --tunnel", "--rank 2 latest 80"),
        ("shell latest ./proxy --tunnel", "shell", None),  # an option of the program
        ("list --recent", "list", None),  # a former command has no forms
    ],
)
def test_what_selects_a_form(line, runs, rest):
    found, _, arguments = resolved(line)
    assert found == runs
    assert arguments == (shlex.split(line)[1:] if rest is None else shlex.split(rest))


def test_a_form_prints_what_the_former_command_prints(dlrun):
    dlrun.spec(SPEC)
    for new, former in [
        ("plan --script spec.yaml", "render spec.yaml"),
        ("plan spec.yaml --rank --script --json", "render spec.yaml --rank --json"),
        ("keys --schema site", "schema site"),
        ("help --completion zsh", "completion zsh"),
        ("status --recent --json", "list --json"),
    ]:
        assert dlrun(*new.split()).stdout == dlrun(*former.split()).stdout != ""


def test_an_error_names_the_form(dlrun):
    ran = dlrun("plan", "--script", "--nope", "x", code=2)
    assert "`dlrun plan --script --help` shows the options" in ran.stderr
