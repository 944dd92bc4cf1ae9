"""Commands that take a spec: options of sbatch such as `--nodes=2` are converted to `--set resources.nodes=2`."""

from __future__ import annotations

import re
from itertools import pairwise

import click

from dlrun.terminal.help_page import Command
from dlrun.terminal.printing import notice


class SpecCommand(Command):
    """A command with `--set`, which also takes keys of `resources` and sbatch's names for them as options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, after options of sbatch are converted to `--set`."""
        known = {name for option in self.get_params(ctx) for name in option.opts}
        if any(a != "--" and a.startswith("-") and _name(a) not in known for a in args):
            args = _with_sets(args, known)
        words = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            apart = re.search(r"extra arguments? \(([^ )]+)", error.message)
            keys = [word for flag, word in pairwise(words) if flag == "--set" and "=" not in word]
            if apart is not None and keys:
                raise click.UsageError(
                    f"`--set` takes one word: write `--set {keys[0]}={apart[1]}`", ctx
                ) from None
            setting = re.search(r"extra arguments? \(([a-z][\w.]*\+?=[^ )]*)", error.message)
            if setting is None:
                raise
            raise click.UsageError(
                f"`{setting[1]}` is not an option: write `--set {setting[1]}`", ctx
            ) from None


_IN_OTHER_UNITS = ("time", "mem", "gres", "nodelist")
"""Options of sbatch whose values are translated, too: a number of minutes or megabytes."""
_SPELT = {"wall_time": "walltime", "num_nodes": "nodes", "nnodes": "nodes"}
"""Other spellings of keys of `resources`."""


def _name(argument: str) -> str:
    """The name of an option: `-N2` and `--nodes=2` without their values."""
    return argument.partition("=")[0] if argument.startswith("--") else argument[:2]


def _with_sets(args: list[str], known: set[str]) -> list[str]:
    from dlrun.config.advice.names import RESOURCE_KEYS
    from dlrun.model.keys import names
    from dlrun.model.spec import Resources
    from dlrun.schedulers.slurm.options import SHORT

    keys = {*names(Resources), *RESOURCE_KEYS, *_SPELT}
    made: list[str] = []
    rest = list(args)
    while rest:
        argument = rest.pop(0)
        option, equals, value = argument.partition("=")
        if argument == "--":
            return [*made, argument, *rest]
        if argument == "-np":  # of mpirun
            name = "ntasks"
        elif re.match(r"-[A-Za-z]", argument):
            option, equals, value = argument[:2], argument[2:], argument[2:]
            name = SHORT.get(option[1], "")
        else:
            name = option[2:] if option.startswith("--") else ""
        name = name.replace("-", "_")
        if option in known or name not in keys or not (equals or rest):
            made.append(argument)
            continue
        value = value if equals else rest.pop(0)
        name = _SPELT.get(name) or (RESOURCE_KEYS.get(name, name) if name not in _IN_OTHER_UNITS else name)
        setting = f"resources.{name}={value}"
        notice(f"note: `{option}` is taken as `--set {setting}`")
        made += ["--set", setting]
    return made
