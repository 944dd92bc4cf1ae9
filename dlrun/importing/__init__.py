"""Import of an existing batch script as a training spec.

`read_script` reads a script: `syntax` splits it into statements and words, `values` follows its variables, `directives` converts
what it asks of the scheduler, `launch` takes the launch line apart, `script` puts the spec together, `check` looks at the result.
What is understood becomes a key of the spec; what is not stays the script's own text, or is marked to be checked.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from dlrun.errors import OperationFailed
from dlrun.importing import directives, program, syntax
from dlrun.importing.agents import ALL_GPUS
from dlrun.importing.launch import decompose
from dlrun.importing.script import Body, Roles
from dlrun.importing.statement import Form
from dlrun.importing.values import Values
from dlrun.model.program import Environment
from dlrun.model.spec import Resources, Spec
from dlrun.plan.mistakes import placeholders
from dlrun.schedulers.draft import SpecDraft
from dlrun.schedulers.slurm import batch_scripts as slurm

_SHELL = re.compile(r"#!\s*(?:/usr)?(?:/local)?/bin/(?:env\s+(?:-S\s+)?)?(?:ba|da|)sh\b(.*)")


def read_script(
    text: str, file: str, threads_per_core: int = 1, arguments: Sequence[str] | None = None, *, node_local: bool | None = None,
    roles: Roles = "nodes",
) -> SpecDraft:  # fmt: skip
    """The spec of a batch script; `file` is its name, the default of the job's name.

    `threads_per_core`: the scheduler's CPUs per core, more than 1 at sites that count hardware threads.
    `arguments`: those with which the script is submitted; None if they are not known.
    `node_local`: whether the site has node-local storage; None if the site is not known.
    `roles`: whether the site's jobs can have several programs, and whether these can share nodes.
    Raises OperationFailed without tree-sitter.
    """
    draft = SpecDraft()
    used = directives.read(text, draft)
    draft.put("name", PurePosixPath(file).stem or "training")
    directives.settle(used, draft)
    draft.anywhere = directives.anywhere(used)
    statements = syntax.statements(text)
    first = text.partition("\n")[0]
    if first.startswith("#!") and not _SHELL.match(first):
        draft.check(1, first, "not a script of bash or sh")
    if not statements:
        draft.check(1, "", "the script runs nothing")
        draft.put("run", "true\n")
    else:
        shell = _SHELL.match(first)
        of_slurm = slurm in used or not used
        login = shell is not None and re.search(r"(?:^|\s)-\w*l", shell[1]) is not None and not of_slurm
        Body(
            draft,
            statements,
            of_slurm,
            threads_per_core,
            arguments,
            login=login,
            node_local=node_local,
            roles=roles,
        ).convert()
    _check_placeholders(draft)
    _in_order(draft)
    draft.left_out.sort(key=lambda left: left.line)
    draft.to_check.sort(key=lambda left: left.line)
    return draft


def _check_placeholders(draft: SpecDraft) -> None:
    """Mark what the plan of the spec refuses, since it stands for something to be filled in."""
    for name in placeholders.NAMED:
        value = draft.get(f"resources.{name}")
        if isinstance(value, str) and placeholders.is_name(value):
            key = f"resources.{name}"
            draft.check(0, value, f"a placeholder: write the value under `{key}`", key)
    for word in draft.get("command") or ():
        if placeholders.is_path(word):
            draft.check(0, word, "a placeholder: write the path in `command`", "command")


def command_draft(text: str, name: str) -> SpecDraft:
    """The spec of a training command as typed in a shell; launchers in it set nodes, ranks and framework."""
    draft = SpecDraft()
    draft.put("name", name)
    try:
        inside = syntax.statements(text)
    except OperationFailed:
        inside = []
    command = inside[0] if len(inside) == 1 else None
    if command is None or command.form is not Form.COMMAND or command.redirections or command.assignments:
        draft.put("run", text)
        draft.put("resources.nodes", 1)
        draft.put("framework", "torch")
        return draft
    values = Values({})
    launch = decompose(1, command.words, values)
    agent = launch.agent if launch.agent is not None and launch.agent.convertible else None
    program.put(draft, agent.words if agent else launch.words, values, in_rank=True)
    draft.put("resources.nodes", (agent.nodes if agent else None) or launch.counts.get("nodes") or 1)
    per_node = agent.per_node if agent else launch.counts.get("tasks_per_node")
    if per_node and per_node != ALL_GPUS:
        draft.put("resources.ranks_per_node", per_node)
    if agent:
        draft.put("framework", agent.framework, f"{agent.program} in the command")
    else:
        draft.put("framework", "mpi" if launch.launchers and "srun" not in launch.launchers else "torch")
    for part, because in [*launch.left, *(agent.left if agent else ())]:
        draft.leave(1, part, because)
    _in_order(draft)
    return draft


def _in_order(draft: SpecDraft) -> None:
    """Put the keys in the order of the schema."""
    for name, schema in (("resources", Resources), ("environment", Environment)):
        if name in draft.values:
            draft.values[name] = _ordered(draft.values[name], schema)
    draft.values = {
        **_ordered(draft.values, Spec),
        **{name: values for name, values in draft.values.items() if name == draft.get("framework")},
    }


def _ordered(values: Mapping[str, Any], schema: type) -> dict[str, Any]:
    """The items of a mapping in the order of the schema."""
    return {f.name: values[f.name] for f in dataclasses.fields(schema) if f.name in values}
