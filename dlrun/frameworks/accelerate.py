"""Hugging Face Accelerate: torch's `env://`, which `Accelerator()` reads; `accelerate launch` is not needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dlrun.frameworks import told
from dlrun.frameworks.protocol import Role, Shape
from dlrun.model.installed import Installed
from dlrun.model.problem import Problem
from dlrun.model.text import Text

NAME = "accelerate"
TITLE = "Hugging Face Accelerate"
LAUNCHERS: tuple[str, ...] = ()
ports = told.one_port
comm_cores = told.no_comm_cores


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Accelerate jobs have no options of their own."""


def roles(shape: Shape, command: Sequence[Text], options: Options) -> Sequence[Role]:
    """One process a rank."""
    variables = told.torch_environment(shape)
    if not shape.gpus_per_node:
        cpu = ("ACCELERATE_USE_CPU", "true", "there are no GPUs")
        variables = (*variables, *told.settings("Accelerate documentation, Launching on CPUs", cpu))
    return (Role(name="rank", place="rank", argv=tuple(command), variables=variables),)


def problems(
    shape: Shape,
    command: Sequence[Text],
    options: Options,
    variables: Mapping[str, str],
    installed: Installed,
) -> Sequence[Problem]:
    """A Gloo interface that cannot reach other nodes."""
    return told.gloo_problems(shape, variables)
