"""Open MPI's mpirun.

By default it binds each rank to one core (two or fewer ranks a node) or one NUMA node, and forwards no
environment: both are set here (Open MPI documentation, mpirun(1); seen with 4.1.4).
"""

from __future__ import annotations

from collections.abc import Sequence

from dlrun.launchers.protocol import Step
from dlrun.model.plan import Identity
from dlrun.model.site import LauncherSite
from dlrun.model.text import Shell, Text
from dlrun.resources import beside

NAME = "openmpi"
IDENTITY = Identity(
    rank=Shell("$OMPI_COMM_WORLD_RANK"),
    local_rank=Shell("$OMPI_COMM_WORLD_LOCAL_RANK"),
    local_size=Shell("${OMPI_COMM_WORLD_LOCAL_SIZE-}"),
)
# Under Slurm, srun starts the daemons; with this variable it would export only the names listed in it.
UNSET: tuple[str, ...] = ("SLURM_EXPORT_ENV",)
LIBRARY: tuple[str, ...] = (beside(__file__, "openmpi"),)
MPI = True
LIBRARIES = ("openmpi", "ucx")
PROGRAMS = ("mpirun", "mpiexec")
VERSION = r"Open ?MPI|OpenRTE|PRRTE"


def start(step: Step, site: LauncherSite) -> Sequence[Text]:
    """`mpirun` over the job's hosts, unbound; `dlrun_openmpi` (lib/openmpi.sh) adds slots and `-x NAME` for each variable."""
    # `dlrun_openmpi` writes the host file with `per_node` slots per host, because mpirun refuses more processes than slots.
    words: list[Text] = [
        Text.of("dlrun_openmpi"),
        Text.of(str(step.per_node)),
        Text.of(site.program or "mpirun"),
        Text.of("-np"),
        Text.of(str(step.count)),
        Text.of("--hostfile"),
        Text.of(Shell("$DLRUN_HOSTS"), f"{'-first' if step.first_only else ''}-x{step.per_node}"),
        Text.of("--map-by"),
        Text.of(f"ppr:{step.per_node}:node" + (f":PE={step.cores}" if step.bound and step.cores else "")),
        Text.of("--bind-to"),
        Text.of("core" if step.bound else "none"),
    ]
    return (*words, *map(Text.of, site.arguments))
