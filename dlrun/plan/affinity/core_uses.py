"""Use of the cores of each slice: compute, communication, loader and spare cores."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from dlrun.model.record import record
from dlrun.plan.affinity.split import Slice


@record(frozen=True, slots=True, kw_only=True)
class CoreUses:
    """The cores of one rank by use; compute, loader and spare in order, comm with the highest core id first."""

    compute: Slice
    comm: Slice
    loader: Slice
    spare: Slice


def from_slices(
    slices: Sequence[Slice], size: int, comm: int, loader: int, nic_near: Sequence[AbstractSet[int]]
) -> list[CoreUses]:
    """CoreUses with communication cores from each rank's own slice: those next to its NIC, or the last ones.

    `size` is the common number of cores per rank; `nic_near` has the first PUs of the cores next to each rank's NIC. Cores of
    a larger slice beyond `size` are used for communication and loading first.
    """
    uses = []
    for cores, close in zip(slices, nic_near, strict=True):
        # Cores beyond `size` may be on another NUMA node; communication stays on the nodes of the compute cores.
        nodes = {core.numa for core in cores[:size]}
        part = tuple(core for core in cores if core.numa in nodes)
        at_nic = tuple(core for core in part if core.pus[0] in close)
        chosen = at_nic if len(at_nic) >= comm and len(at_nic) < len(part) else part
        taken = chosen[len(chosen) - comm :][::-1]
        uses.append(_rest(cores, part, taken, size - comm - loader, loader))
    return uses


def beside_taken(slices: Sequence[Slice], size: int, comm: Sequence[Slice], loader: int) -> list[CoreUses]:
    """CoreUses with communication cores (`comm`) taken beforehand; `size` is the common number of cores per slice."""
    return [
        _rest(cores, cores, taken, size - loader, loader) for cores, taken in zip(slices, comm, strict=True)
    ]


def _rest(cores: Slice, part: Slice, comm: Slice, compute: int, loader: int) -> CoreUses:
    used = {core.pus[0] for core in comm}
    inside = {core.pus[0] for core in part}
    free = [core for core in part if core.pus[0] not in used]
    free += [core for core in cores if core.pus[0] not in used and core.pus[0] not in inside]
    work, others = free[:compute], free[compute:]
    split = len(others) - loader
    loaders, spare = others[split:], others[:split]
    return CoreUses(compute=tuple(work), comm=comm, loader=tuple(loaders), spare=tuple(spare))
