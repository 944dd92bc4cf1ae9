"""Division of a slice of cores into compute, communication, loader and spare cores."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from dlrun.model.record import record
from dlrun.plan.affinity.split import Slice


@record(frozen=True, slots=True, kw_only=True)
class Roles:
    """The cores of one rank by use; compute, loader and spare in order, comm with the highest core id first."""

    compute: Slice
    comm: Slice
    loader: Slice
    spare: Slice


def own(
    slices: Sequence[Slice], size: int, comm: int, loader: int, nic_near: Sequence[AbstractSet[int]]
) -> list[Roles]:
    """Roles with communication cores from each rank's own slice: at its end, or next to the NIC if a part of it is.

    `size` is the common number of cores per rank; `nic_near` has the first PUs of the cores next to each rank's NIC. Cores of
    a larger slice beyond `size` are used for communication and loading first.
    """
    roles = []
    for cores, close in zip(slices, nic_near, strict=True):
        nodes = {core.numa for core in cores[:size]}
        part = tuple(core for core in cores if core.numa in nodes)
        at_nic = tuple(core for core in part if core.pus[0] in close)
        chosen = at_nic if len(at_nic) >= comm and len(at_nic) < len(part) else part
        taken = chosen[len(chosen) - comm :][::-1]
        roles.append(_rest(cores, part, taken, size - comm - loader, loader))
    return roles


def given(slices: Sequence[Slice], size: int, comm: Sequence[Slice], loader: int) -> list[Roles]:
    """Roles with communication cores (`comm`) taken beforehand; `size` is the common number of cores per slice."""
    return [
        _rest(cores, cores, taken, size - loader, loader) for cores, taken in zip(slices, comm, strict=True)
    ]


def _rest(cores: Slice, part: Slice, comm: Slice, compute: int, loader: int) -> Roles:
    used = {core.pus[0] for core in comm}
    inside = {core.pus[0] for core in part}
    free = [core for core in part if core.pus[0] not in used]
    free += [core for core in cores if core.pus[0] not in used and core.pus[0] not in inside]
    work, others = free[:compute], free[compute:]
    split = len(others) - loader
    loaders, spare = others[split:], others[:split]
    return Roles(compute=tuple(work), comm=comm, loader=tuple(loaders), spare=tuple(spare))
