"""oneCCL programs: started by MPI, with oneCCL's workers on the placement's communication cores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dlrun.frameworks.common import comm_cores as communication, defaults, presets
from dlrun.frameworks.protocol import Role, Shape
from dlrun.model.keys import key
from dlrun.model.observed import Installed
from dlrun.model.problem import Problem
from dlrun.model.text import Text

NAME = "oneccl"
TITLE = "oneCCL program"
LAUNCHERS = ("intelmpi", "hydra", "srun", "pals", "ibrun")
LIBRARIES = ("oneccl",)
PRESETS = {"": presets.TORCH_CCL}
_SOURCE = "oneCCL documentation, Environment variables"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of oneCCL programs."""

    workers: int = key("oneCCL worker threads of each rank, each on its own core", default=1, minimum=1)


def roles(shape: Shape, command: Sequence[Text], options: Options) -> Sequence[Role]:
    """One process per rank; the worker affinity lists the cores of all ranks of a node in order of local rank."""
    transport = defaults.settings(_SOURCE, [("CCL_ATL_TRANSPORT", "mpi", "an MPI launcher starts the ranks")])
    variables = (*transport, *communication.of_library("ccl", shape.ranks, otherwise=options.workers))
    return (Role(name="rank", place="rank", argv=tuple(command), variables=variables),)


def comm_cores(options: Options) -> int:
    """One per worker."""
    return options.workers


def problems(
    shape: Shape,
    command: Sequence[Text],
    options: Options,
    variables: Mapping[str, str],
    installed: Installed,
) -> Sequence[Problem]:
    """A warning for workers without cores: with I_MPI_PIN=0 oneCCL cannot derive them."""
    if any(rank.comm for rank in shape.ranks) or "CCL_WORKER_AFFINITY" in variables:
        return ()
    problem = Problem(
        code="DLR048",
        message="there are no cores for oneCCL workers, because the ranks are not bound by the plan",
        help="use whole nodes of a described type (`exclusive: true`), or set `CCL_WORKER_AFFINITY`",
        warning=True,
    )
    return (problem,)
