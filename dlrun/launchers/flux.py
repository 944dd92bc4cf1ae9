"""`flux run` inside the Flux instance of a batch job (flux-run(1); run with 0.88).

Every run requests resources of the instance again. By default Flux binds each task to its slot and hides the other GPUs from
it; affinity is off because `rank.sh` binds. So is LLNL's plug-in mpibind (`mpibind=off`, ignored where it is not installed).
Without `exit-on-error` the tasks of a run continue for 30 s (`exit-timeout`) after the first failure.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlrun.launchers.protocol import Step
from dlrun.model.plan import Identity
from dlrun.model.site import LauncherSite
from dlrun.model.text import Shell, Text
from dlrun.resources import beside

NAME = "flux"
IDENTITY = Identity(rank=Shell("$FLUX_TASK_RANK"), local_rank=Shell("$FLUX_TASK_LOCAL_ID"))
LIBRARY: tuple[str, ...] = ("start", beside(__file__, "flux-run"))
MPI: bool | None = None  # by PMI, where the MPI was built for it

_BOUND = ("-o", "cpu-affinity=per-task", "-o", "gpu-affinity=per-task")
_UNBOUND = ("-o", "cpu-affinity=off", "-o", "gpu-affinity=off", "-o", "mpibind=off")


def start(step: Step, site: LauncherSite) -> Sequence[Text]:
    """`dlrun_flux` (lib/flux-run.sh) with the layout of the step; cores per task only where the launcher binds.

    What waits beside the ranks takes no cores of the instance (flux-jobtap-plugins(7), alloc-bypass).
    """
    words = [
        "dlrun_flux_beside" if step.wait else "dlrun_flux",
        site.program or "flux",
        f"--nodes={step.nodes}",
        f"--ntasks={step.count}",
        *_layout(step),
        *(("--cores-per-task", str(step.cores)) if step.bound and step.cores else ()),
        *(_BOUND if step.bound else _UNBOUND),
        *("-o", "exit-on-error"),
        *(("-o", f"pmi={site.mpi}") if site.mpi else ()),
    ]
    # Without a host, Flux takes any free node of the instance, not necessarily that of rank 0, whose address is the rendezvous.
    placed = [Text.of("--requires=host:", Shell("$DLRUN_FIRST_HOST"))] if step.first_only else []
    if step.chosen and not step.first_only:
        placed = [Text.of("--requires=host:", Shell("$DLRUN_CHOSEN_HOSTS"))]
    return (*map(Text.of, words), *placed, *map(Text.of, site.arguments))


def _layout(step: Step) -> tuple[str, ...]:
    # Flux divides tasks as equally as it can, 4,3,3; [first node, nodes, tasks on each, repeats] as in RFC 34 fills one node
    # after the other.
    if step.count == step.nodes * step.per_node:
        return ()
    full, rest = divmod(step.count, step.per_node)
    return (f"--taskmap=manual:[[0,{full},{step.per_node},1],[{full},1,{rest},1]]",)


def command(started: Sequence[Text]) -> Sequence[Text]:
    """`flux exec` on the host that is appended: its broker starts the program, unbound and without a job, in 40 ms."""
    text = 'rank=$("$0" hostlist --find="$1" local) && exec "$0" exec --quiet --rank="$rank" "${@:2}"'
    return (*map(Text.of, ("bash", "-c", text)), *started[1:2])
