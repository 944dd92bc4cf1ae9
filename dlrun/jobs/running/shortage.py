"""What an allocation has too little of for a plan, and the options of one that is large enough."""

from __future__ import annotations

from dlrun import backends
from dlrun.errors import Invalid
from dlrun.jobs.running.allocation import Held
from dlrun.model.plan import Plan
from dlrun.model.units import many
from dlrun.schedulers.protocol import Allocation
from dlrun.system.inputs.spec import Inputs


def check_room(plan: Plan, inputs: Inputs, held: Held) -> None:
    """Raise Invalid for a plan that needs more than the allocation has, with the options of one that is large enough."""
    request, granted = plan.request, held.granted
    allocation = backends.scheduler(held.scheduler).ALLOCATION
    launcher = backends.launcher(plan.launch.name)
    if request.hosts and not launcher.CHOOSES_NODES and len(request.hosts) < len(granted.hosts):
        raise Invalid(
            f"launcher `{launcher.NAME}` starts ranks on all nodes of an allocation, and only "
            f"{many(len(request.hosts), 'node')} of {len(granted.hosts)} would be used",
            help="leave out `--nodes` and `--hosts`, or use another `--launcher`",
        )
    gpus = request.gpus_per_node or 0
    cpus = max(1, _asked_cpus(plan, inputs)) * request.ranks_per_node
    lacks: list[tuple[str, str]] = []
    if request.nodes > len(granted.hosts):
        lacks.append((many(len(granted.hosts), "node"), f"{request.nodes}"))
    if granted.gpus is not None and gpus > granted.gpus:
        lacks.append((f"{many(granted.gpus, 'GPU')} on each node", f"{gpus}"))
    if granted.cpus is not None and cpus > granted.cpus:
        each = f" ({many(request.ranks_per_node, 'rank')})"
        lacks.append((f"{many(granted.cpus, 'CPU')} on each node", f"{cpus}{each}"))
    if lacks and allocation is not None:
        has, needs = lacks[0]
        raise Invalid(
            f"{held} has {has}, but the plan needs {needs}",
            help=f"get one with `{_start(allocation, plan, gpus, cpus)}`, or ask for less here",
        )


def _asked_cpus(plan: Plan, inputs: Inputs) -> int:
    """CPUs of each rank as the scheduler counts them, if the spec sets them; else 0: the ranks share what was granted."""
    return plan.request.cpus_per_rank or 0 if inputs.spec.resources.cpus_per_rank != "auto" else 0


def _start(allocation: Allocation, plan: Plan, gpus: int, cpus: int) -> str:
    """The command for an allocation that is large enough for a plan."""
    request = plan.request
    values = {
        "nodes": request.nodes, "ranks": request.ranks_per_node, "total": request.ranks, "gpus": gpus,
        "cpus": -(-cpus // request.ranks_per_node), "node_cpus": cpus,
    }  # fmt: skip
    return allocation.line((allocation.size + (allocation.gpus if gpus else "")).format(**values))
