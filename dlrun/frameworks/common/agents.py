"""A framework's own launcher (agent), used with `agent: true` under the framework's key.

dlrun does not need it. Most run once on each node and start that node's ranks (`torchrun`, `deepspeed --no_ssh`,
`accelerate launch`, `paddle.distributed.launch`); `horovodrun` runs once and starts all ranks by ssh.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from dlrun.frameworks.protocol import Role, Setting, Shape
from dlrun.model.keys import key
from dlrun.model.problem import Problem
from dlrun.model.text import Shell, Text


def agent_key(program: str, where: str = "one per node") -> Any:
    """The spec key `agent`."""
    return key(f"start ranks through `{program}`, {where}; dlrun does not need it", default=False)


def arguments_key(program: str) -> Any:
    """The spec key `agent_arguments`."""
    return key(f"more arguments of `{program}`, with `agent: true`", default=(), single="never")


def on_each_node(argv: Sequence[str | Shell | Text], variables: Sequence[Setting]) -> tuple[Role]:
    """The role of an agent that starts the ranks of its node; the agent itself is not bound."""
    words = tuple(Text.of(word) for word in argv)
    return (Role(name="agent", place="node", argv=words, variables=tuple(variables), binds=False),)


def module(
    shape: Shape, command: Sequence[Text], name: str, *, not_python: str
) -> tuple[tuple[Text, ...], tuple[Text, ...]]:
    """The words that start an agent (a module) by the command's Python, and the words by which it starts a rank.

    Agents prepend Python to the rank's command unless they get the option `not_python`; it is set for commands that are
    not Python programs, and for ranks started through the binding script.
    """
    parts = split_python(command)
    start = (parts.python or Text.of("python3"), Text.of("-m"), Text.of(name))
    # The binding script is bash, which the agent must not start with Python.
    if shape.binder:
        return start, (Text.of(not_python), *shape.binder, *command)
    return start, parts.words if parts.python else (Text.of(not_python), *parts.words)


def hostfile(shape: Shape) -> Shell:
    """Expansion for the path of a host file with `slots=RANKS` per host; the last host may have fewer."""
    return Shell(f"$(dlrun_hostfile {shape.ranks_per_node} {shape.world_size})")


def problems(
    shape: Shape, options: Any, *, program: str, even: bool, only: Sequence[str] = ()
) -> list[Problem]:
    """Problems: options of an agent without `agent: true` (`only`: further ones), and uneven nodes if it needs `even` ones."""
    faults = []
    unused = [name for name in ("agent_arguments", *only) if getattr(options, name)]
    if unused and not options.agent:
        names = " and ".join(f"`{name}`" for name in unused)
        faults.append(
            Problem(
                code="DLR041",
                message=f"{names} has an effect only on `{program}`, which is started with `agent: true`",
                help="add `agent: true`, or remove it",
            )
        )
    if even and options.agent and shape.world_size != shape.nodes * shape.ranks_per_node:
        faults.append(
            Problem(
                code="DLR039",
                message=f"`{program}` starts the same number of ranks on every node, but the last node has fewer",
                help="remove `resources.ranks`, or use a multiple of `ranks_per_node`",
            )
        )
    return faults


class PythonCommand(NamedTuple):
    """The interpreter of a `python [-u] script …` command and the words after it; None if the command is not Python."""

    python: Text | None
    words: tuple[Text, ...]


def split_python(command: Sequence[Text]) -> PythonCommand:
    """A command as an interpreter and its words."""
    first = command[0].literal or ""
    if not re.fullmatch(r"(.*/)?python[0-9.]*", first):
        return PythonCommand(None, tuple(command))
    rest = list(command[1:])
    # torchrun and deepspeed start their ranks with `-u` themselves.
    while rest and rest[0].literal == "-u":
        rest.pop(0)
    return PythonCommand(command[0], tuple(rest))
