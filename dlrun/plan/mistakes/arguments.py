"""Words of the command that a shell or a template would read, but no program does."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from dlrun.model.spec import Spec
from dlrun.model.text import lazy_pattern
from dlrun.plan.command.command_line import RESERVED
from dlrun.plan.command.expressions import outside
from dlrun.plan.decisions import Ledger

_WORDS_OF_SHELLS = {
    "cd": "name the working directory under `directory:`", "module": "name modules under `environment.modules`",
    "ml": "name modules under `environment.modules`", "source": "write the line under `environment.setup`",
    ".": "write the line under `environment.setup`", "conda": "name the environment under `environment.conda`",
    "export": "set variables under `environment.variables`", "ulimit": "write the line under `environment.setup`",
    "set": "write the line under `environment.setup`", "unset": "name variables under `environment.drop`",
    "alias": "write the line under `environment.setup`", "exec": "leave `exec` out",
}  # fmt: skip
"""First words that a shell understands and no program has, or that only change the shell that they run in -> the way out."""
_BRACES = lazy_pattern(r"(?<![{$])\{\s*([A-Za-z_]\w*)\s*\}(?!\})")
_DOLLAR = lazy_pattern(r"\$(\{\{[^{}]*\}\})")
"""An expression as GitHub Actions writes it."""
_TWO_WORDS = lazy_pattern(r"(--?[A-Za-z][\w.-]*)\s+([^\s-]\S*)")
"""An option with its value in one argument."""

_OTHER_TEMPLATES = lazy_pattern(r"\{%.*?%\}|(?:^|[\s=])%(?:[A-Z_]{3,}%|[xjAaN](?:[-_.]%[xjAaN])*(?:\.\w+)?$)")
"""Statements of Jinja, variables of Windows, and Slurm's `%x-%j` of file names."""

_RANK_OPTION = lazy_pattern(r"(--(?:(local|global|node)[-_])?rank)=([0-9]+)")
_IN_NAME = lazy_pattern(r"\{\{.*?\}\}|\$\(.*?\)|\$\{?\w+\}?|%\(?\w+\)?")


def check(spec: Spec, points: Sequence[Mapping[str, str]], ledger: Ledger) -> None:
    """Add a warning for each word that the program would not understand."""
    if (part := _IN_NAME.search(spec.name)) is not None:
        ledger.problem(
            "DLR100", f"`{part[0]}` in `name` is not filled in", "name", warning=True,
            help="write a name for the whole job: each job, and each point of a sweep, has a directory of its own",
        )  # fmt: skip
    if spec.run is not None:
        _secrets(spec.run, spec.secrets, ledger)
        return
    first = spec.command[0]
    conda_program = first == "conda" and spec.command[1:2] == ("run",)
    if first in _WORDS_OF_SHELLS and not conda_program:
        ledger.problem(
            "DLR123", f"`{first}` is a word of the shell, and no shell reads `command`", "command.0", "command",
            help=f"{_WORDS_OF_SHELLS[first]}, or write the lines under `run:` instead of `command:`",
        )  # fmt: skip
    names = {*RESERVED, *(points[0] if points else ())}
    for index, word in enumerate(spec.command):
        key = f"command.{index}"
        for match in _BRACES.finditer(outside(word)):
            if match[1] in names:
                ledger.problem(
                    "DLR100", f"`{match[0]}` is passed to the program unchanged", key, "command",
                    help=f"write `{{{{ {match[1]} }}}}`, with two braces", warning=True,
                )  # fmt: skip
        flag = _RANK_OPTION.fullmatch(
            word
            + (f"={spec.command[index + 1]}" if index + 1 < len(spec.command) and "=" not in word else "")
        )
        if flag is not None and spec.resources.ranks_per_node != 1:
            value = f"{flag[2]}_rank".removeprefix("global_").removeprefix("None_")
            ledger.problem(
                "DLR121", f"`{flag[1]} {flag[3]}` gives all ranks the same value, but each rank needs its own", key, "command",
                help=f"write `{{{{ {value} }}}}` in place of `{flag[3]}`, or leave the option out", warning=True,
            )  # fmt: skip
        if part := _DOLLAR.search(word):
            ledger.problem(
                "DLR100", f"the `$` before `{part[1]}` is passed to the program", key, "command",
                help=f"write `{part[1]}`, without `$`", warning=True,
            )  # fmt: skip
        if part := _OTHER_TEMPLATES.search(word):
            ledger.problem(
                "DLR100", f"`{part[0]}` is passed to the program unchanged", key, "command",
                help="only `{{ }}` is filled in, with `A if B else C` for a choice", warning=True,
            )  # fmt: skip
        if index and (part := _TWO_WORDS.fullmatch(word)):
            ledger.problem(
                "DLR124", f"`{word}` is one argument, and a program looks for an option of that name", key, "command",
                help=f"write two items, `{part[1]}, {part[2]}`", warning=True,
            )  # fmt: skip


_COMMANDS = lazy_pattern(r"[;&|\n(]+|\$\(")
"""Between two commands of a shell line."""
_STAYS = lazy_pattern(
    r"\s*(?:(?:export|declare|local|readonly|echo|printf|test|\[\[?|:|if|while|case|for)\s.*"
    r"|(?:[A-Za-z_]\w*=\S*(?:\s+|\Z))+)",
    re.DOTALL,
)
"""A command whose words no other process sees: built-ins of the shell, and assignments alone."""
_NOT_ARGUMENTS = lazy_pattern(
    r"^\s*(?:[A-Za-z_]\w*=(?:\"[^\"]*\"|[^\s\"])*\s+)+|<<<\s*(?:\"[^\"]*\"|\S+)|'[^']*'|\$\{#\w+\}"
)
"""What the program gets otherwise: variables, standard input, literal text, the length of a value."""


def _secrets(text: str, secrets: Iterable[str], ledger: Ledger) -> None:
    """Warn of a secret whose value a shell line makes an argument."""
    commands = [
        _NOT_ARGUMENTS.sub(" ", command) for command in _COMMANDS.split(text) if not _STAYS.fullmatch(command)
    ]
    for name in secrets:
        if any(re.search(rf"\$(?:{name}\b|\{{{name}\b)", command) for command in commands):
            ledger.problem(
                "DLR130", f"the value of secret `{name}` becomes an argument, which every user of a node can read with `ps`",
                "run", "command", help=f"let the program read the variable `{name}`, which each rank has", warning=True,
            )  # fmt: skip
