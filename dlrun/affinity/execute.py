"""`dlrun tune-affinity --exec`: what ranks on this machine start from, wherever only a part of it was granted."""

from __future__ import annotations

import os
from dataclasses import replace

from dlrun.affinity import bind as affinity_bind
from dlrun.affinity.actions import PlacementTask, print_notices
from dlrun.affinity.inputs import whole_node
from dlrun.affinity.settings import visibility
from dlrun.model.cpuset import join
from dlrun.model.placement import Placement
from dlrun.model.topology import Topology
from dlrun.plan.affinity import place


def execute(task: PlacementTask) -> int:
    """Replace this process by one rank if a launcher started it as one, else run all ranks; returns the exit code."""
    number = affinity_bind.local_rank()
    placement = for_grant(task, node_of(task), alone=number is None)
    shown = shown_gpus(task, placement)
    if number is not None:
        rank = affinity_bind.rank_of(placement, number)
        affinity_bind.become(placement, rank, task.job, task.options["command"], shown)
    print_notices(placement, task.job)
    os.environ.update(shown)
    return affinity_bind.run_all(placement, task.job, task.options["command"])


def node_of(task: PlacementTask) -> Topology:
    """The whole node: as `--topology` describes it, else as it is, whatever of it was granted."""
    return task.start.topology if task.options["topology"] is not None else whole_node(task.start)


def for_grant(task: PlacementTask, whole: Topology, *, alone: bool) -> Placement:
    """The placement that ranks on this machine start from: that of the whole node, of which the library (templates/lib/divide.sh)
    divides what was granted. So a rank has the same here, in the wrapper and in a job.

    whole: the node. alone: no launcher has started the ranks. Raises Invalid if the request cannot be met.
    """
    topology, request = task.start.topology, task.request
    if whole == topology:
        return task.placement()
    if alone and not request.oversubscribe:  # refused if there are fewer cores than ranks
        place(replace(topology, gpus=()), replace(request, comm_cores=0, loader_cores=0, gpus_per_rank=0))
    if request.gpus_per_rank is None and len(topology.gpus) < len(whole.gpus):
        each = len(topology.gpus) // request.ranks_per_node or min(1, len(topology.gpus))
        if each * request.ranks_per_node <= len(whole.gpus):
            request = replace(request, gpus_per_rank=each)
    return place(whole, request)


def shown_gpus(task: PlacementTask, placement: Placement) -> dict[str, str]:
    """The variable that shows GPUs, where the scheduler has named the job's (`SLURM_JOB_GPUS`) and has not set it."""
    name, mine = visibility(placement, task.job), task.start.topology.gpus
    if name is None or name in os.environ or task.options["topology"] is not None:
        return {}
    return {name: join(gpu.index for gpu in mine)} if 0 < len(mine) < placement.node.gpus else {}
