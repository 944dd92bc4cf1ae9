"""DeepSpeed: torch's `env://`, which `deepspeed.init_distributed` reads; the `deepspeed` launcher is not needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dlrun.frameworks import told
from dlrun.frameworks.protocol import Role, Shape
from dlrun.model.installed import Installed
from dlrun.model.problem import Problem
from dlrun.model.text import Text

NAME = "deepspeed"
TITLE = "DeepSpeed"
LAUNCHERS: tuple[str, ...] = ()
ports = told.one_port
comm_cores = told.no_comm_cores


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """DeepSpeed jobs have no options of their own: its configuration is the program's."""


def roles(shape: Shape, command: Sequence[Text], options: Options) -> Sequence[Role]:
    """One process a rank."""
    variables = told.torch_environment(shape)
    if not shape.gpus_per_node:
        cpu = ("DS_ACCELERATOR", "cpu", "there are no GPUs")
        variables = (*variables, *told.settings("DeepSpeed, accelerator/real_accelerator.py", cpu))
    return (Role(name="rank", place="rank", argv=tuple(command), variables=variables),)


def problems(
    shape: Shape,
    command: Sequence[Text],
    options: Options,
    variables: Mapping[str, str],
    installed: Installed,
) -> Sequence[Problem]:
    """A lock that a killed compilation has left, for which every rank would wait."""
    found = told.gloo_problems(shape, variables)
    for lock in installed.locks:
        found.append(
            Problem(
                code="DLR047",
                message=f"`{lock}` is left of a compilation: if that was killed, every rank waits for it for ever",
                help="remove it, unless DeepSpeed is compiling there now",
                warning=True,
            )
        )
    return found
