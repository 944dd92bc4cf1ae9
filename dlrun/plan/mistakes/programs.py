"""Programs in `command:`, `run:` and `setup:` that do something else in a job: jobs in jobs, other bindings, an early end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from dlrun.frameworks.common import nested_launcher_check
from dlrun.frameworks.protocol import Shape
from dlrun.model.spec import Spec
from dlrun.model.text import Text, digits, lazy_pattern
from dlrun.model.topology import VISIBILITY
from dlrun.plan.command.shell_lines import Statement, statements
from dlrun.plan.decisions import Ledger

_ASSIGNMENT = lazy_pattern(r"([A-Za-z_]\w*)=.*", re.DOTALL)
_ACTIVATES = lazy_pattern(
    r"(?:(?:conda|mamba|micromamba|source) +activate|activate) +(\S+)|(.+)/bin/(?:activate|python3?)"
)
_OF_A_RANK = ("RANK", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK")
_APART = {
    "nohup": "leave `nohup` out: a job continues when you log out",
    "setsid": "leave `setsid` out: a job continues when you log out",
    "screen": "leave `screen` out: a job continues when you log out",
    "tmux": "leave `tmux` out: a job continues when you log out",
    "sudo": "leave `sudo` out: a job runs as you, and compute nodes have no `sudo`",
    "docker": "write `environment: {container: {image: docker://NAME}}`: clusters run images with apptainer or enroot",
}
"""Programs that a terminal needs and a job does not -> the way out."""
_BINDERS = {
    "taskset": r"-\w*c\w*|--cpu-list|0x[0-9a-f]+",
    "numactl": r"(?:--(?:cpunodebind|physcpubind|membind|cpubind)|-[NCmc])\b.*",
    "hwloc-bind": r"[^-].*",
}
"""Programs that bind -> the options with which they do."""


def check(spec: Spec, ledger: Ledger) -> None:
    """Add a problem for each such program."""
    if match := _ACTIVATES.fullmatch(spec.environment.conda or ""):
        name = match[1] or match[2]
        ledger.problem(
            "DLR131", f"`{spec.environment.conda}` is not the name or the directory of an environment", "environment.conda",
            help=f"write `conda: {name}`",
        )  # fmt: skip
    if spec.run is None:
        _words(spec, ledger)
        commands: Sequence[Statement] = [Statement(variables=(), words=spec.command)]
    else:
        commands = list(statements(spec.run))
        _shell(spec, commands, ledger)
    for statement in commands:
        _program(statement, ledger)
    _activation(
        [statement for line in spec.environment.setup for statement in statements(line)],
        "environment.setup",
        ledger,
    )


def of_launchers(spec: Spec, shape: Shape, ledger: Ledger) -> None:
    """Add the problem of a launcher in the shell text `run`."""
    for statement in statements(spec.run or ""):
        words = [Text.of(word) for word in statement.words]
        if words and (problems := nested_launcher_check.problems(shape, words)):
            ledger.problems += [
                replace(problem, origin=ledger.origin("run", "command")) for problem in problems
            ]
            return


def _words(spec: Spec, ledger: Ledger) -> None:
    if (assignment := _ASSIGNMENT.fullmatch(spec.command[0])) is None or len(spec.command) < 2:
        return
    instead = f"write `environment: {{variables: {{{assignment[1]}: …}}}}`, or the line under `run:` instead of `command:`"
    if assignment[1] in VISIBILITY.values():
        instead = "remove it: with `gpus_per_node` the job gets its GPUs, and each rank its own"
    ledger.problem(
        "DLR123",
        f"`{assignment[1]}=…` is the program here: only a shell reads it as a variable",
        "command.0",
        "command",
        help=instead,
    )


def _program(statement: Statement, ledger: Ledger) -> None:
    if not statement.words:
        return
    name, arguments = statement.words[0].rpartition("/")[2], statement.words[1:]
    if name in _APART:
        ledger.problem(
            "DLR123", f"`{name}` has no use in a job", "run", "command", help=_APART[name], warning=True
        )
    binds = _BINDERS.get(name)
    # With a variable among its options, it can be another place for each rank.
    own = any("$" in word or "{{" in word for word in arguments)
    if binds is not None and not own and any(re.fullmatch(binds, word, re.IGNORECASE) for word in arguments):
        ledger.problem(
            "DLR136", f"`{name}` binds all ranks of a node to the same cores or memory, over their places in the plan",
            "run", "command", help=f"leave `{name}` out: `dlrun plan` shows the cores of each rank, `placement:` changes them",
            warning=True,
        )  # fmt: skip


def _shell(spec: Spec, commands: Sequence[Statement], ledger: Ledger) -> None:
    """What only shell text has: variables before a program, programs in the background, and options without a program."""
    for statement in commands:
        for name, value in statement.variables:
            if name in _OF_A_RANK and digits(value):
                ledger.problem(
                    "DLR121", f"`{name}={value}` gives all ranks the same value, but each rank needs its own", "run", "command",
                    help=f"remove it: dlrun sets `{name}` in each rank",
                )  # fmt: skip
            if name in VISIBILITY.values() and spec.resources.ranks_per_node != 1:
                ledger.problem(
                    "DLR122", f"`{name}` is set by hand, to the same GPUs for all ranks of a node", "run", "command",
                    help="remove it: with `gpus_per_node` the job gets its GPUs, and each rank its own", warning=True,
                )  # fmt: skip
    last = commands[-1] if commands else None
    if last is not None and last.end == "&":
        ledger.problem(
            "DLR123", "the last program runs in the background (`&`): a rank ends, and the program with it, before it is done",
            "run", "command", help="leave the `&` out, or end with `wait`",
        )  # fmt: skip
    first = commands[0].words[0] if commands and commands[0].words else ""
    if re.fullmatch(r"-[A-Za-z]\w*", first):
        ledger.problem(
            "DLR123", f"the shell text begins with `{first}`, which names no program", "run", "command",
            help=f"a space after the dash makes an item of a list: `- {first[1:]}`",
        )  # fmt: skip
    _activation(commands, "run", ledger)


_OF_CONDA = lazy_pattern(r"conda|mamba|forge|python|torch|tensorflow", re.IGNORECASE)
"""In the names of modules whose files may define the functions of conda."""


def _defines(statement: Statement) -> bool:
    first = statement.words[0] if statement.words else ""
    if first in {"module", "ml"}:
        return any(map(_OF_CONDA.search, statement.words[1:]))
    return first in {"source", "."} or any("hook" in word for word in statement.words)


def _activation(commands: Sequence[Statement], key: str, ledger: Ledger) -> None:
    """`conda activate` needs the functions of conda, which a job's shell has only after a file or module of conda."""
    if any(_defines(statement) for statement in commands):
        return
    for name in _activated(commands):
        ledger.problem(
            "DLR131", "`conda activate` fails in a job's shell, which has not read the functions of conda", key, "command",
            help=f"write `environment: {{conda: {name}}}` in its place", warning=True,
        )  # fmt: skip


def _activated(commands: Sequence[Statement]) -> Iterator[str]:
    for statement in commands:
        if statement.words[:2] == ("conda", "activate"):
            yield statement.words[2] if len(statement.words) > 2 else "base"
