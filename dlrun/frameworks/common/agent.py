"""A framework's own agent, where the spec asks for it: `agent: true` under the framework's key.

dlrun needs none of them. Most run once on each node and start that node's ranks (`torchrun`, `deepspeed --no_ssh`,
`accelerate launch`, `paddle.distributed.launch`); `horovodrun` runs once and starts all ranks by ssh.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from dlrun.frameworks.protocol import Role, Setting, Shape
from dlrun.model.keys import key
from dlrun.model.problem import Problem
from dlrun.model.text import Shell, Text


def wanted(program: str, where: str = "one per node") -> Any:
    """The key that asks for an agent."""
    return key(f"start ranks through `{program}`, {where}; dlrun does not need it", default=False)


def arguments(program: str) -> Any:
    """The key for more of its arguments."""
    return key(f"more arguments of `{program}`, with `agent: true`", default=(), lone="never")


def on_each_node(argv: Sequence[str | Shell | Text], variables: Sequence[Setting]) -> tuple[Role]:
    """The role of an agent that starts the ranks of its node; it is not bound itself."""
    words = tuple(Text.of(word) for word in argv)
    return (Role(name="agent", place="node", argv=words, variables=tuple(variables), binds=False),)


def module(
    shape: Shape, command: Sequence[Text], name: str, *, not_python: str
) -> tuple[tuple[Text, ...], tuple[Text, ...]]:
    """How to start an agent that is a module by the command's own Python, and by which words it starts a rank.

    An agent starts a rank's command with Python unless `not_python` is set: where the command is not Python, and
    where the rank is bound by a script that becomes it.
    """
    python, program = split_python(command)
    start = (python or Text.of("python3"), Text.of("-m"), Text.of(name))
    if shape.binder:
        return start, (Text.of(not_python), *shape.binder, *command)
    return start, program if python else (Text.of(not_python), *program)


def hostfile(shape: Shape) -> Shell:
    """The name of a file of all hosts, each with its ranks as `slots=`; the last one may have fewer."""
    return Shell(f"$(dlrun_hostfile {shape.ranks_per_node} {shape.world_size})")


def problems(
    shape: Shape, options: Any, *, program: str, even: bool, only: Sequence[str] = ()
) -> list[Problem]:
    """Options of an agent that is not asked for (`only`: its further ones), and nodes that it wants `even`."""
    found = []
    unused = [name for name in ("agent_arguments", *only) if getattr(options, name)]
    if unused and not options.agent:
        said = " and ".join(f"`{name}`" for name in unused)
        found.append(
            Problem(
                code="DLR041",
                message=f"{said}: for `{program}`, which `agent: true` would start",
                help="add `agent: true`, or remove it",
            )
        )
    if even and options.agent and shape.world_size != shape.nodes * shape.ranks_per_node:
        found.append(
            Problem(
                code="DLR039",
                message=f"`{program}` starts the same number of ranks on every node, but the last node has fewer",
                help="remove `resources.ranks`, or use a multiple of `ranks_per_node`",
            )
        )
    return found


def split_python(command: Sequence[Text]) -> tuple[Text | None, tuple[Text, ...]]:
    """The interpreter of a `python [-u] script …` command and what follows it; None if it is not Python."""
    first = command[0].literal or ""
    if not re.fullmatch(r"(.*/)?python[0-9.]*", first):
        return None, tuple(command)
    rest = list(command[1:])
    while rest and rest[0].literal == "-u":
        rest.pop(0)
    return command[0], tuple(rest)
