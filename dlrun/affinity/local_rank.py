"""Variables with the local rank of a process, by launcher: one table for Python and for rendered scripts."""

from __future__ import annotations

from collections.abc import Mapping

from dlrun.model.text import digits

STEP = "SLURM_STEP_NUM_TASKS"
"""Set in a Slurm step, but not in a batch script, where `SLURM_LOCALID` is 0 without a meaning."""

LOCAL_RANK = (
    "LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "MVP_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "DLRUN_LOCAL_RANK",
    "PALS_LOCAL_RANKID",
    "PMI_LOCAL_RANK",
    "FLUX_TASK_LOCAL_ID",
    "SLURM_LOCALID",
)
"""Variables with a process's rank on its node, the innermost launcher's first.

torchrun (and DeepSpeed's and Accelerate's launchers), Open MPI, MVAPICH 2 and 3, MPICH's and Intel MPI's Hydra, dlrun,
PALS (two names), Flux, Slurm. A launcher started by a batch script or step passes the outer launcher's variables to its ranks
unchanged: under `mpirun` in a Slurm job `SLURM_LOCALID` is 0 in every rank. torchrun is started by MPI's launchers,
never the other way round, and both are started by those of schedulers.
"""


def variables(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The variables that hold a local rank, the innermost launcher's first by the table; empty if no launcher set one.

    With different values only one is of the launcher that started this process, which the environment alone does not tell:
    a variable may also be left over in a shell (`dlrun.affinity.bind.launcher_variable`).
    """
    return tuple(
        name
        for name in LOCAL_RANK
        if digits(environment.get(name, "")) and (name != "SLURM_LOCALID" or environment.get(STEP))
    )
