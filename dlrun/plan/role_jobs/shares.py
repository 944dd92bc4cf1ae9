"""Roles that share nodes: which roles are on the same ones, and the cores and GPUs that each of them gets there.

One division holds for all roles of a node, so that their parts never overlap. GPUs come first, in the
order of the roles that begins with the one whose nodes they are, then for each GPU the cores next to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from dlrun.errors import Invalid
from dlrun.model.nearest import nearest
from dlrun.model.placement import Reserve
from dlrun.model.program import Role
from dlrun.model.record import record
from dlrun.model.spec import Spec
from dlrun.model.topology import Core, Gpu, Topology
from dlrun.model.units import Bytes, many
from dlrun.plan.affinity.slots import near
from dlrun.plan.affinity.usable import usable_cores
from dlrun.plan.decisions import Ledger
from dlrun.plan.role_jobs.order import CODE


@record(frozen=True, slots=True, kw_only=True)
class Part:
    """The part of a node that a role has: its spec, with the number of its ranks, and the node with its cores and GPUs alone."""

    spec: Spec
    topology: Topology


def groups(roles: Mapping[str, Role], *, one_node: bool) -> dict[str, tuple[str, ...]]:
    """Role that has nodes -> all roles on them, itself first. one_node: all roles are on the one node that there is."""
    if one_node:
        return {next(iter(roles)): tuple(roles)}
    own = {name: [name] for name, role in roles.items() if role.beside is None}
    for name, role in roles.items():
        if role.beside in own:
            own[role.beside].append(name)
    return {name: tuple(names) for name, names in own.items()}


def check(roles: Mapping[str, Role], ledger: Ledger) -> None:
    """Add a problem for each role that cannot be beside the one that it names."""
    for name, role in roles.items():
        if role.beside is not None and (role.node_type or role.partition):
            key = "node_type" if role.node_type else "partition"
            ledger.problem(
                CODE,
                f"role `{name}` is beside `{role.beside}`, so it has nodes of the same type",
                f"roles.{name}.{key}",
                help=f"remove `{key}`, or `beside`",
            )
        other = roles.get(role.beside or "")
        if role.beside is None or (other is not None and other.beside is None and other.nodes >= role.nodes):
            continue
        near_it = nearest(role.beside, [candidate for candidate in roles if candidate != name])
        if other is None:
            message = f"role `{name}` is beside `{role.beside}`, which is not in `roles`"
            way = f"the nearest is `{near_it}`" if near_it else "name one of the other roles"
        elif other is role:
            message, way = f"role `{name}` is beside itself", "name another role, or remove `beside`"
        elif other.beside is not None:
            message = f"role `{name}` is beside `{role.beside}`, which has no nodes of its own"
            way = f"write `beside: {other.beside}`"
        else:
            message = f"role `{name}` has {many(role.nodes, 'node')}, and `{role.beside}`, which it is beside, {other.nodes}"
            way = f"use at most `nodes: {other.nodes}`"
        ledger.problem(CODE, message, f"roles.{name}.beside", f"roles.{name}:", help=way)


def memory(roles: Mapping[str, Role], on_nodes: Mapping[str, Sequence[str]]) -> Bytes | None:
    """The most that the roles of one node may use of its memory; None where a role is not limited."""
    each = {name: roles[name].memory_per_node for names in on_nodes.values() for name in names}
    if None in each.values():
        return None
    return Bytes(max(sum(each[name] or 0 for name in names) for names in on_nodes.values()))


def divide(
    names: Sequence[str], specs: Mapping[str, Spec], node: Topology | None, ledger: Ledger
) -> dict[str, Part]:
    """The part of each of these roles of a node; empty, with a problem, where they need more than it has.

    Where there are fewer cores than ranks, and no role names a number of cores, none of them is bound.
    """
    if node is None:
        ledger.problem(
            CODE,
            f"roles {_listed(names)} share a node of unknown topology, which cannot be divided",
            f"roles.{names[-1]}.beside",
            "roles",
            help="add the topology of the node type to the site profile, or give each role nodes of its own",
        )
        return {}
    shown = _divide_gpus(names, specs, node, ledger)
    try:
        cores = usable_cores(node, _reserved(specs[name] for name in names)).cores
    except Invalid as fault:
        ledger.problem(
            CODE, fault.message, "placement.reserve", "roles", help=fault.help or "reserve fewer cores"
        )
        return {}
    except ValueError:  # an error of the plan of each role
        cores = node.cores
    if shown is None:
        return {}
    sized = {name: _with_ranks(specs[name], len(shown[name])) for name in names}
    counts = _count_cores(sized, len(cores), ledger)
    if counts is None:
        return {}
    if not counts:
        return {
            name: Part(spec=_unbound(spec), topology=replace(node, gpus=shown[name]))
            for name, spec in sized.items()
        }
    taken = _choose_cores(node, cores, shown, counts)
    return {
        name: Part(
            spec=spec,
            topology=replace(
                node, gpus=shown[name], allowed=tuple(sorted(pu for core in taken[name] for pu in core.pus))
            ),
        )
        for name, spec in sized.items()
    }


def _reserved(specs: Iterable[Spec]) -> Reserve:
    """What the roles reserve on their node: together, since it is one node."""
    each = [Reserve.parse(spec.placement.reserve) for spec in specs]
    return Reserve(
        cpus=tuple(sorted({cpu for reserve in each for cpu in reserve.cpus})),
        per_l3=max(reserve.per_l3 for reserve in each),
        per_node=max(reserve.per_node for reserve in each),
    )


def _divide_gpus(
    names: Sequence[str], specs: Mapping[str, Spec], node: Topology, ledger: Ledger
) -> dict[str, tuple[Gpu, ...]] | None:
    """The GPUs of each role; None, with a problem, if they cannot be divided."""
    wanted = {name: specs[name].resources.gpus_per_node for name in names}
    fixed = sum(count for count in wanted.values() if count != "auto")
    have, open_ = len(node.gpus), [name for name, count in wanted.items() if count == "auto"]
    key = next((name for name, count in wanted.items() if count not in ("auto", 0)), names[0])
    if fixed > have:
        ledger.problem(
            CODE,
            f"roles {_listed(names)} are on the same node and ask for {many(fixed, 'GPU')} of its {have}",
            f"roles.{key}.gpus_per_node",
            "resources.gpus_per_node",
            "roles",
            help="a GPU belongs to one role: write `gpus_per_node` in each of them, 0 for one that needs none",
        )
        return None
    if open_ and (have - fixed) % len(open_):
        ledger.problem(
            CODE,
            f"{many(have - fixed, 'GPU')} of a node cannot be divided evenly among the roles {_listed(open_)}",
            f"roles.{open_[-1]}.beside",
            "roles",
            help="write `gpus_per_node` in each of them, 0 for one that needs none",
        )
        return None
    each, shown, first = (have - fixed) // max(1, len(open_)), {}, 0
    for name, count in wanted.items():
        number = each if count == "auto" else count
        shown[name], first = node.gpus[first : first + number], first + number
    return shown


def _with_ranks(spec: Spec, gpus: int) -> Spec:
    """The spec with the number of its GPUs and ranks: one for each GPU, or one."""
    ranks = spec.resources.ranks_per_node
    count = max(1, gpus) if ranks == "auto" else ranks
    return replace(spec, resources=replace(spec.resources, gpus_per_node=gpus, ranks_per_node=count))


def _count_cores(specs: Mapping[str, Spec], have: int, ledger: Ledger) -> dict[str, int] | None:
    """The number of cores of each role: what it asks for, and of the rest a share in proportion to its ranks.

    Empty where no role can be bound; None, with a problem, if they ask for more cores than there are.
    """
    ranks = {name: int(spec.resources.ranks_per_node) for name, spec in specs.items()}
    asked = {name: spec.resources.cpus_per_rank for name, spec in specs.items()}
    counts = {name: ranks[name] * int(each) for name, each in asked.items() if each != "auto"}
    rest = [name for name in specs if name not in counts]
    left, sharing = have - sum(counts.values()), sum(ranks[name] for name in rest)
    if left < sharing:
        needed = sum(counts.values()) + sharing
        ledger.problem(
            CODE,
            f"roles {_listed(specs)} need at least {many(needed, 'core')} of a node, and {have} can be used",
            *(f"roles.{name}.cpus_per_rank" for name in counts),
            "resources.cpus_per_rank",
            "roles",
            help="use fewer `ranks_per_node` or `cpus_per_rank`"
            if counts
            else "their ranks are not bound to cores",
            warning=not counts,
        )
        return None if counts else {}
    each = left // sharing if sharing else 0
    left -= each * sharing
    for name in rest:
        more = int(left >= ranks[name])  # ranks of a role have the same number of cores
        counts[name], left = (each + more) * ranks[name], left - more * ranks[name]
    return {name: counts[name] for name in specs}


def _listed(names: Iterable[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)


def _unbound(spec: Spec) -> Spec:
    threads = 1 if spec.placement.threads == "auto" else spec.placement.threads
    return replace(spec, placement=replace(spec.placement, bind="none", threads=threads))


def _choose_cores(
    node: Topology, cores: Sequence[Core], shown: Mapping[str, Sequence[Gpu]], counts: Mapping[str, int]
) -> dict[str, list[Core]]:
    """So many cores for each role: next to each of its GPUs a share of them; those without GPUs get cores far from any."""
    close = {
        gpu.index: {core.pus[0] for core in near(node, tuple(cores), gpu)}
        for gpus in shown.values()
        for gpu in gpus
    }
    anywhere = {pu for pus in close.values() for pu in pus}
    wanted: list[tuple[str, set[int], int]] = []
    for name, count in counts.items():
        gpus = shown[name]
        # What is left over is spread as well: given to the first GPUs, it would be of their package alone.
        ends = [count * place // len(gpus) for place in range(len(gpus) + 1)] if gpus else []
        wanted += [
            (name, close[gpu.index], upto - since)
            for gpu, (since, upto) in zip(gpus, pairwise(ends), strict=True)
        ]
    wanted += [(name, set(), count) for name, count in counts.items() if not shown[name]]
    free, taken = list(cores), {name: list[Core]() for name in counts}
    for name, own, count in wanted:
        far = [(core.pus[0] not in own, core.pus[0] in anywhere, place) for place, core in enumerate(free)]
        chosen = {place for *_, place in sorted(far)[:count]}
        taken[name] += [core for place, core in enumerate(free) if place in chosen]
        free = [core for place, core in enumerate(free) if place not in chosen]
    return taken
