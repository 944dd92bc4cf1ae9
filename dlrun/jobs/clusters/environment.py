"""Remove variables from an environment that a new job would inherit from an enclosing job or launcher."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping

from dlrun import backends
from dlrun.errors import Invalid
from dlrun.model.plan import Plan, SecretPlan
from dlrun.system.paths import expanded, read_bytes
from dlrun.system.process import run

NEEDED = frozenset(
    {
        "PBS_AUTH_METHOD",
        "PBS_CONF_FILE",
        "PBS_DEFAULT",
        "PBS_ENCRYPT_METHOD",
        "PBS_EXEC",
        "PBS_HOME",
        "PBS_PRIMARY",
        "PBS_SECONDARY",
        "PBS_SERVER",
        "SLURM_CONF",
        "SLURM_CONF_SERVER",
        "SLURM_JWT",
    }
)
"""Variables that clients need to reach their scheduler."""

_SCHEDULERS = (
    r"SLURM|SLURMD|SBATCH|SRUN|SALLOC|SQUEUE|SACCT|SCANCEL|SINFO|PBS|PMI2?|PMIX|PALS|ALPS_APP|FLUX_TASK"
)
_LAUNCHERS = (
    r"OMPI|PRTE|HYDRA|HYDI|HYD|I_MPI_HYDRA|I_MPI_PIN|MPIRUN|MPISPAWN|MPIEXEC|MV2_COMM_WORLD|TORCHELASTIC|DMLC"
)
_IDENTITY = (
    r"RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|NODE_RANK|GROUP_RANK|GROUP_WORLD_SIZE|ROLE_RANK|ROLE_WORLD_SIZE"
    r"|ROLE_NAME|MASTER_ADDR|MASTER_PORT|TF_CONFIG|I_MPI_PIN|MPI_LOCALRANKID|MPI_LOCALNRANKS"
    r"|HOROVOD_(?:RANK|SIZE|LOCAL_RANK|LOCAL_SIZE|CROSS_RANK|CROSS_SIZE|HOSTNAME|GLOO_RENDEZVOUS_\w+|CONTROLLER)"
    r"|JAX_(?:COORDINATOR_ADDRESS|NUM_PROCESSES|PROCESS_ID)"
)
_INHERITED = re.compile(rf"(?:{_SCHEDULERS}|{_LAUNCHERS})_\w*|MASTER_\w+|{_IDENTITY}")


def inherited(environment: Mapping[str, str]) -> list[str]:
    """The names of variables of another job or launcher, sorted.

    Inherited masks bind ranks incorrectly and inherited options override directives: SBATCH_ACCOUNT takes precedence over
    the script, SQUEUE_FORMAT changes squeue's output, SLURM_CPU_BIND changes srun's binding.
    """
    return sorted(name for name in environment if name not in NEEDED and _INHERITED.fullmatch(name))


def clean(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment without inherited job variables."""
    gone = set(inherited(environment))
    return {name: value for name, value in environment.items() if name not in gone}


_OF_STEP = re.compile(
    r"SLURM_(?:STEP\w*|STEPID|PROCID|LOCALID|NODEID|GTIDS|TASK_PID|CPU_BIND\w*|MEM_BIND\w*|SRUN_COMM_\w+|PTY_\w+|UMASK"
    r"|DISTRIBUTION|NPROCS|NTASKS|LAUNCH_NODE_IPADDR)|SRUN_\w+|PMI2?_\w+|PMIX_\w+|PALS_\w+|FLUX_TASK_\w+|OMPI_COMM_WORLD_\w+"
    rf"|HYDI?_\w+|TORCHELASTIC_\w+|MASTER_\w+|{_IDENTITY}"
)
"""Variables of one process: of a step, a launcher or a rank."""


_OF_ALL_RANKS = re.compile(
    r"MASTER_\w+|WORLD_SIZE|LOCAL_WORLD_SIZE|JAX_COORDINATOR_ADDRESS|JAX_NUM_PROCESSES"
)
"""Variables that are equal in all ranks, so that a script exports them for all."""
_OF_RANK = ("RANK", "LOCAL_RANK", "JAX_PROCESS_ID")


def within_allocation(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for a job in the allocation of this shell: all but what describes a single process.

    The shell may be a step (`salloc` with an interactive step, `srun --pty bash`), or a rank's own. In any other, a rendezvous
    that a script has exported is that of its ranks, whose framework may set none.
    """
    is_rank = any(name in environment for name in _OF_RANK)
    return {
        name: value
        for name, value in environment.items()
        if not _OF_STEP.fullmatch(name) or (not is_rank and _OF_ALL_RANKS.fullmatch(name))
    }


def without_own(
    environment: Mapping[str, str], prefix: str = sys.prefix, base: str = sys.base_prefix
) -> dict[str, str]:
    """The environment without the virtual environment that dlrun itself runs in, if any.

    For jobs with their own environment: if that is missing on a node, the job must fail instead of using dlrun's Python.
    """
    kept = dict(environment)
    if prefix == base:
        return kept
    # PATH may have the environment's path with or without its symbolic links resolved.
    own = {f"{prefix}/bin", f"{os.path.realpath(prefix)}/bin"}
    kept["PATH"] = ":".join(
        directory for directory in environment.get("PATH", "").split(":") if directory.rstrip("/") not in own
    )
    if environment.get("VIRTUAL_ENV") in (prefix, os.path.realpath(prefix)):
        for name in ("VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT"):
            kept.pop(name, None)
    return kept


_LONGEST = 1 << 16
"""Bytes of a secret's file that are read."""


def secret_values(plan: Plan) -> dict[str, str]:
    """The values of the plan's secrets, for a program on this machine; raises Invalid for one that cannot be read here."""
    return {secret.name: _value(secret) for secret in plan.secrets}


def _value(secret: SecretPlan) -> str:
    name = f"secret `{secret.name}`"
    if secret.env is not None:
        if not (value := os.environ.get(secret.env, "")):
            raise Invalid(f"{name}: the variable `{secret.env}` is not set in this shell")
        return value
    if secret.file is not None:
        path = expanded(secret.file)
        try:
            return read_bytes(path, _LONGEST).decode("utf-8", errors="surrogateescape").rstrip("\n")
        except OSError as error:
            raise Invalid(f"{name}: `{path}` cannot be read: {error.strerror}") from None
    done = run(list(secret.command))
    if done.returncode:
        raise Invalid(f"{name}: its command `{secret.command[0]}` failed with exit code {done.returncode}")
    return done.stdout.rstrip("\n")


def check_secrets(plan: Plan) -> None:
    """Raise Invalid for a secret of an unset variable, or of any variable if the scheduler shows jobs' variables to others."""
    visible = not backends.scheduler(plan.scheduler).HIDES_ENVIRONMENT
    for secret in plan.secrets:
        if secret.env is None:
            continue
        # PBS's `qstat -f` prints Variable_List, to other users as well if the server's query_other_jobs is set.
        if visible:
            raise Invalid(
                f"secret `{secret.name}` comes from a variable, and {plan.scheduler} shows a job's variables to others",
                help=f"use `secrets: {{{secret.name}: {{file: PATH}}}}` or `command:`",
            )
        if not os.environ.get(secret.env):
            raise Invalid(f"secret `{secret.name}`: the variable `{secret.env}` is not set in this shell")
