"""Slurm's srun.

Ranks start unbound with every core that the job has on the node, and `rank.sh` binds them. So no
`--cpus-per-task` is given to the step: it would imply `--exact` (Slurm 22.05 and later), with which Slurm
selects the cores. With `bind: scheduler` every option is given to the step, because srun from 22.05
to before 23.11 ignored the batch job's `--cpus-per-task` (Slurm RELEASE_NOTES).
"""

from __future__ import annotations

from collections.abc import Sequence

from dlrun.launchers.protocol import Step
from dlrun.model.plan import Identity
from dlrun.model.site import LauncherSite
from dlrun.model.text import Shell, Text

NAME = "srun"
IDENTITY = Identity(
    rank=Shell("$SLURM_PROCID"),
    local_rank=Shell("$SLURM_LOCALID"),
    local_size=Shell("${SLURM_STEP_TASKS_PER_NODE-}"),
    node=Shell("${SLURM_NODEID-}"),
)
# srun reads these as its own options: values of the batch job would change its layout, binding or environment.
UNSET = (
    "SLURM_CPUS_PER_TASK",
    "SRUN_CPUS_PER_TASK",
    "SLURM_CPU_BIND",
    "SLURM_TRES_PER_TASK",
    "SLURM_EXPORT_ENV",
    "SLURM_NTASKS_PER_NODE",
)
MPI: bool | None = None  # with the PMI plug-in that the MPI was built for
ENROOT = True
LIMITS_MEMORY = True  # srun(1), `--mem`; where slurm.conf has task/cgroup, and cgroup.conf ConstrainRAMSpace


def start(step: Step, site: LauncherSite) -> Sequence[Text]:
    """`srun` with the complete layout; no option is left to the environment."""
    words = [
        site.program or "srun",
        *([f"--het-group={step.component}"] if step.component is not None else []),
        f"--nodes={step.nodes}",
        f"--ntasks={step.count}",
        *_layout(step),
        "--kill-on-bad-exit=1",
        "--export=ALL",
    ]
    if step.bound and step.cpus:
        words.append(f"--cpus-per-task={step.cpus}")
    words.append(f"--cpu-bind={'cores' if step.bound else 'none'}")
    if site.mpi:
        words.append(f"--mpi={site.mpi}")
    if step.memory is not None:
        words.append(f"--mem={max(1, step.memory.mebibytes())}M")
    # Since Slurm 20.11 a step does not share its CPUs, unless all steps that use them have this option.
    if step.beside:
        words.append("--overlap")
    placed = [Text.of("--nodelist=", Shell("$DLRUN_FIRST_HOST"))] if step.first_only else []
    if step.chosen and not step.first_only:
        placed = [Text.of("--nodelist=", Shell("$DLRUN_CHOSEN_HOSTS"))]
    # A step without `--mem` takes all memory of the job on its node, and the training steps would wait for it.
    waiting = ("--overlap", "--mem=0") if step.wait else ()
    return (*map(Text.of, words), *placed, *map(Text.of, (*site.arguments, *waiting)))


def _layout(step: Step) -> tuple[str, ...]:
    # Where the last node has fewer, `--ntasks-per-node` is ignored with a warning, and `block` starts 4,3,3 instead of 4,4,2
    # (seen with 22.05); `plane` fills one node after the other.
    if step.count == step.nodes * step.per_node:
        return (f"--ntasks-per-node={step.per_node}", "--distribution=block")
    return (f"--distribution=plane={step.per_node}",)
