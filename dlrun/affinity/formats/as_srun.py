"""Arguments of Slurm's `srun`: one mask of OS ids for each local rank."""

from __future__ import annotations

from dlrun.affinity.settings import BindingContext
from dlrun.model.cpuset import to_mask
from dlrun.model.placement import Placement
from dlrun.model.topology import Topology

NOTE = (
    "Slurm applies the masks only in steps that have every CPU of the node (`--exclusive`); memory policy, "
    "GPUs and threads need `--format wrapper` or `env` beside them"
)


def emit(placement: Placement, _topology: Topology, _job: BindingContext) -> str:
    """`--ntasks-per-node`, `--cpu-bind` and a distribution that keeps ranks in the order of the masks."""
    masks = ",".join(to_mask(rank.mask).removeprefix("0x") for rank in placement.ranks)
    return (
        f"--ntasks-per-node={len(placement.ranks)} --cpu-bind=mask_cpu:{masks} --distribution=block:block\n"
    )
