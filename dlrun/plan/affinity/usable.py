"""Usable cores, in the order in which slices are cut: package, NUMA node, L3, core id."""

from __future__ import annotations

from dataclasses import replace

from dlrun.errors import Invalid
from dlrun.model.cpuset import format_list
from dlrun.model.placement import Reserve
from dlrun.model.record import record
from dlrun.model.topology import Core, Topology


@record(frozen=True, slots=True, kw_only=True)
class Usable:
    """Usable cores in order, without PUs that are not allowed; `packages` with granted cores; `because` as text;
    `trimmed` if the allowed mask has only some of the hardware threads of most cores; `kept` are the PUs of reserved and isolated
    cores."""

    cores: tuple[Core, ...]
    packages: tuple[int, ...]
    because: str
    trimmed: bool = False
    kept: frozenset[int] = frozenset()


def usable_cores(topology: Topology, reserve: Reserve) -> Usable:
    """Cores that are online, allowed, not isolated and not reserved; a core counts only with all its online PUs.

    A mask with parts of more than twice as many cores as whole ones is how schedulers turn SMT off
    (`--hint=nomultithread`), or an irregular list; then the parts are the cores. Raises Invalid if no core is left.
    """
    if missing := set(reserve.cpus) - {*topology.pus(), *topology.offline}:
        raise Invalid(
            f"CPU {format_list(missing)} cannot be reserved: the node has {format_list(topology.pus())}",
            help="use the CPU numbers of the operating system (`lscpu -e`)",
        )
    taken = {"isolated": set(topology.isolated), "reserved": {*topology.reserved, *reserve.pus(topology)}}
    # Whole cores: a rank on the second thread of a reserved core would share it with the system.
    blocked = {pu for core in topology.cores_of(set().union(*taken.values())) for pu in core.pus}
    offline = set(topology.offline)
    online = [_only(core, {pu for pu in core.pus if pu not in offline}) for core in topology.cores]
    allowed = set(topology.pus() if topology.allowed is None else topology.allowed)
    granted = [core for core in online if core.pus and allowed.issuperset(core.pus)]
    parts = [core for core in (_only(core, allowed) for core in online) if core.pus]
    # The mask has parts of most cores: it turns SMT off, and the parts are the cores.
    trimmed = len(parts) > 2 * len(granted)
    if trimmed:
        granted = parts
    cores = [core for core in granted if not blocked.intersection(core.pus)]
    if not cores:
        raise Invalid(
            f"no usable core is left: {len(topology.cores)} cores, allowed CPUs "
            f"{format_list(allowed) or 'none'}, reserved or isolated CPUs {format_list(blocked) or 'none'}",
            help="reserve less (`--reserve none`), or ask the scheduler for whole cores",
        )
    out = [f"{format_list(pus)} {what}" for what, pus in taken.items() if pus]
    if topology.offline:
        out.append(f"{format_list(topology.offline)} offline")
    if topology.allowed is not None and len(allowed) < len(topology.pus()):
        out.append(f"only {format_list(allowed)} allowed")
    because = f"{len(cores)} of {len(topology.cores)} cores" + (f" ({'; '.join(out)})" if out else "")
    packages = tuple(sorted({core.package for core in granted}))
    return Usable(
        cores=_ordered(cores, topology),
        packages=packages,
        because=because,
        trimmed=trimmed,
        kept=frozenset(blocked),
    )


def numa_spans_packages(topology: Topology) -> bool:
    """True if a NUMA node has cores of several packages (interleaved memory: one node for all)."""
    pairs = {(core.numa, core.package) for core in topology.cores}
    return len(pairs) > len({numa for numa, _ in pairs})


def _only(core: Core, pus: set[int]) -> Core:
    kept = tuple(pu for pu in core.pus if pu in pus)
    return core if kept == core.pus else replace(core, pus=kept)


def _ordered(cores: list[Core], topology: Topology) -> tuple[Core, ...]:
    # L3 labels are arbitrary, so groups are ordered by their lowest core id: the placement must not depend on numbering.
    first: dict[tuple[int, int, int], tuple[int, int]] = {}
    for core in cores:
        group = (core.package, core.numa, core.l3)
        first[group] = min(first.get(group, (core.die, core.core_id)), (core.die, core.core_id))
    numa_first = numa_spans_packages(topology)

    def key(core: Core) -> tuple[object, ...]:
        outer = (core.numa, core.package) if numa_first else (core.package, core.numa)
        return (*outer, first[core.package, core.numa, core.l3], core.l3, core.die, core.core_id, core.pus)

    return tuple(sorted(cores, key=key))
