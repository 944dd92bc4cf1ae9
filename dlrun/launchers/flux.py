"""Flux's own launcher, in the instance that each batch job is (flux-run(1); run with 0.88).

Every run asks again for resources of the instance. Flux would bind each task to its slot and hide the other GPUs from
it, so affinity is off and `rank.sh` binds; LLNL's plug-in mpibind likewise (`mpibind=off`; others ignore that option).
Without `exit-on-error` the other tasks of a run whose first has failed get 30 s.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from dlrun.launchers.protocol import Step
from dlrun.model.plan import Identity, Variable
from dlrun.model.site import LauncherSite
from dlrun.model.text import Shell, Text

NAME = "flux"
IDENTITY = Identity(rank=Shell("$FLUX_TASK_RANK"), local_rank=Shell("$FLUX_TASK_LOCAL_ID"))
UNSET = ()
LIBRARY: tuple[str, ...] = ("start", "flux-run")
PLACE: Literal["allocation"] = "allocation"
MPI: bool | None = None  # by PMI, where the MPI was built for it
STEPS = True
CHOOSES_NODES = True
ONE_LAYOUT = False
ENROOT = False
LIBRARIES: tuple[str, ...] = ()
PROGRAMS: tuple[str, ...] = ()
VERSION = ""

_BOUND = ("-o", "cpu-affinity=per-task", "-o", "gpu-affinity=per-task")
_UNBOUND = ("-o", "cpu-affinity=off", "-o", "gpu-affinity=off", "-o", "mpibind=off")


def start(step: Step, site: LauncherSite) -> Sequence[Text]:
    """`dlrun_flux` of lib/flux-run.sh with the layout; a core for each process, so that processes that start later find one."""
    words = [
        "dlrun_flux",
        site.program or "flux",
        f"--nodes={step.nodes}",
        f"--ntasks={step.count}",
        *(("--cores-per-task", str(step.cores)) if step.bound and step.cores else ()),
        *(_BOUND if step.bound else _UNBOUND),
        *("-o", "exit-on-error"),
        *(("-o", f"pmi={site.mpi}") if site.mpi else ()),
    ]
    placed = [Text.of("--requires=host:", Shell("$DLRUN_FIRST_HOST"))] if step.first_only else []
    if step.chosen and not step.first_only:
        placed = [Text.of("--requires=host:", Shell("$DLRUN_CHOSEN_HOSTS"))]
    return (*map(Text.of, words), *placed, *map(Text.of, site.arguments))


def command(started: Sequence[Text]) -> Sequence[Text]:
    """A run of one core on the host that follows: nodes of Flux need no ssh between them."""
    text = 'exec "$0" run --nodes=1 --ntasks=1 --requires=host:"$1" "${@:2}"'
    return (*map(Text.of, ("bash", "-c", text)), *started[1:2])


def variables(site: LauncherSite) -> Sequence[Variable]:
    """Nothing: flux run carries the whole environment to every task."""
    return ()
