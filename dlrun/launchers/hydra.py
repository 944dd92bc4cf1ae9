"""MPICH's process manager, mpiexec.hydra; it copies the environment to every rank."""

from __future__ import annotations

from collections.abc import Sequence

from dlrun.launchers.protocol import Step
from dlrun.model.plan import Identity
from dlrun.model.site import LauncherSite
from dlrun.model.text import Shell, Text

NAME = "hydra"
IDENTITY = Identity(
    rank=Shell("$PMI_RANK"), local_rank=Shell("$MPI_LOCALRANKID"), local_size=Shell("${MPI_LOCALNRANKS-}")
)
# Under Slurm, srun starts the daemons; with this variable it would export only the names listed in it.
UNSET: tuple[str, ...] = ("SLURM_EXPORT_ENV",)
MPI = True
LIBRARIES = ("mpich",)
PROGRAMS = ("mpiexec.hydra", "mpiexec", "mpirun")
VERSION = "HYDRA"


def start(step: Step, site: LauncherSite) -> Sequence[Text]:
    """`mpiexec.hydra` over the job's host list, unbound unless the launcher is to bind."""
    core = f"core:{step.cores}" if step.cores else "core"
    return arguments(step, site, ("-bind-to", core if step.bound else "none"))


def arguments(step: Step, site: LauncherSite, bind: Sequence[str]) -> Sequence[Text]:
    """The arguments common to MPICH's and Intel MPI's mpiexec.hydra; `bind` are the binding options."""
    return (
        Text.of(site.program or "mpiexec.hydra"),
        Text.of("-f"),
        Text.of(Shell("$DLRUN_HOSTS"), "-first" if step.first_only else ""),
        *map(Text.of, ("-ppn", str(step.per_node), "-n", str(step.count), *bind, *site.arguments)),
    )
