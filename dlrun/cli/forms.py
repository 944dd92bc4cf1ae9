"""Other forms of a command: an option such as `plan --script` selects what was a command of its own, `render`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import click


class Form(NamedTuple):
    """An option that selects another command: its own options follow it, and its former name still works."""

    former: str
    """Name of the command that takes the arguments."""
    location: str
    """Where that command is, as in the table of commands."""
    text: str
    """What the option does, for the help page of the command that has it."""
    value: str | None = None
    """Name of the first argument, where the option is written with it: `init --from SCRIPT`."""


FORMS: dict[str, dict[str, Form]] = {
    "init": {
        "--from": Form(
            "import", "dlrun.cli.specs.import_script", "Convert this batch script to a spec instead", "SCRIPT"
        )
    },
    "plan": {
        "--script": Form(
            "render",
            "dlrun.cli.specs.render",
            "Print the job script instead, or write the whole job directory",
        )
    },
    "hold": {"--release": Form("release", "dlrun.cli.jobs.control:release", "Release held jobs instead")},
    "status": {
        "--recent": Form(
            "list", "dlrun.cli.jobs.list", "List the latest jobs instead, whether they have ended or not"
        )
    },
    "usage": {
        "--live": Form("top", "dlrun.usage.top", "Watch a running job instead"),
        "--page": Form("report", "dlrun.usage.report", "Write an HTML page about the job instead"),
    },
    "results": {
        "--fetch": Form(
            "fetch", "dlrun.cli.jobs.fetch", "Copy files of a remote job from its login node instead"
        )
    },
    "diff": {
        "--code": Form(
            "code", "dlrun.cli.jobs.code", "List the code of one job instead, or write it to a directory"
        )
    },
    "shell": {
        "--tunnel": Form(
            "tunnel", "dlrun.inside.tunnel", "Reach a port of the job's node from this machine instead"
        )
    },
    "keys": {
        "--schema": Form(
            "schema",
            "dlrun.cli.specs.schema",
            "Print the JSON Schema of specs or profiles instead",
            "spec|site",
        )
    },
    "help": {
        "--completion": Form(
            "completion", "dlrun.cli.completion", "Print the completion script of a shell instead", "SHELL"
        )
    },
}
"""Command -> option -> form."""

FORMER = {form.former: f"{name} {option}" for name, forms in FORMS.items() for option, form in forms.items()}
"""Commands that help and completion do not list -> how they are written."""


def with_options(name: str, command: click.Command) -> click.Command:
    """A command whose help page lists its other forms, too."""
    have = {option for param in command.params for option in param.opts}
    for option, form in FORMS.get(name, {}).items():
        if option not in have:
            command.params.append(_option(name, option, form))
    return command


def _option(name: str, option: str, form: Form) -> click.Option:
    text = f"{form.text}: see `dlrun {name} {option} --help`."
    if form.value is None:
        return click.Option([option], is_flag=True, expose_value=False, help=text)
    return click.Option([option], metavar=form.value, expose_value=False, help=text)


def chosen(name: str, command: click.Command, args: Sequence[str]) -> int | None:
    """The index of an option of another form in the arguments of a command; None if there is none.

    Words that follow `--`, that follow the first argument of a command which runs a program (`shell`), or that are the value of
    another option select nothing.
    """
    forms: Mapping[str, Form] = FORMS.get(name, {})
    if not any(word.partition("=")[0] in forms for word in args):
        return None
    valued = {
        option
        for param in command.params
        if isinstance(param, click.Option) and not param.is_flag and not set(param.opts) & set(forms)
        for option in param.opts
    }
    own_words_first = not command.context_settings.get("allow_interspersed_args", True)
    is_value = False
    for index, word in enumerate(args):
        option, equals, _ = word.partition("=")
        if is_value:
            is_value = False
        elif word == "--" or (own_words_first and not word.startswith("-")):
            return None
        elif option in forms and not (equals and forms[option].value is None):
            return index
        else:
            is_value = word in valued
    return None
