"""What ranks said of themselves beside the plan: every difference, and what is likely behind it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dlrun.model.cpuset import format_list
from dlrun.model.placement import RankPlacement
from dlrun.model.plan import FabricCheck, Plan
from dlrun.node.transport_lines import NAMES, TCP

_SKEW = 2.0
"""Seconds by which the clocks of two nodes may differ."""
_LOCKED = 64 << 20
"""Bytes of memory that a rank must be able to lock for a network adapter: less is a system's default."""
_RDMA = ("infiniband", "roce", "omni-path")

Report = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that is not as planned, and what is likely to be behind it."""

    what: str
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One rank: what it reported (None: nothing), and how that differs from the plan."""

    rank: int
    report: Report | None
    differences: tuple[Difference, ...]


def compare(
    plan: Plan,
    found: Mapping[int, Report],
    hosts: Sequence[str],
    fabric: FabricCheck | None = None,
    *,
    libraries: bool = False,
) -> list[Checked]:
    """Each rank's report beside the plan; `hosts` are the job's nodes in order.

    `fabric` is what a library's transport is held against; with `libraries` every rank was to test one.
    """
    request, placement = plan.request, plan.binding.placement
    checked = []
    for rank in range(request.ranks):
        report = found.get(rank)
        if report is None:
            lost = Difference(what="it did not report", cause="it never started, or ended early: see its log")
            checked.append(Checked(rank=rank, report=None, differences=(lost,)))
            continue
        node, local_rank = divmod(rank, request.ranks_per_node)
        differences = list(_common(plan, report))
        if node < len(hosts) and report["host"] != hosts[node]:
            differences.append(
                Difference(what=f"runs on {report['host']}, not {hosts[node]}",
                           cause="the launcher does not fill nodes in order")
            )  # fmt: skip
        beside = [its for its in found.values() if its["host"] == report["host"] and its is not report]
        if placement is not None:
            differences += _placed(placement.ranks[local_rank], plan.binding.gpu_variable, report, beside)
        elif plan.binding.mode == "job":
            differences += _shared(rank, report, found)
        differences += _variables(plan, report)
        if libraries:
            differences += _library(plan, report, fabric)
        checked.append(Checked(rank=rank, report=report, differences=tuple(differences)))
    return checked


def _common(plan: Plan, report: Report) -> list[Difference]:
    found = []
    if "unreached" in report:
        what = f"does not reach rank 0: {report['unreached']}"
        found.append(
            Difference(what=what, cause=f"the site's rendezvous rule ({plan.rendezvous.rule}), or a firewall")
        )
    elif report["sum"] != (right := plan.request.ranks * (plan.request.ranks + 1) // 2):
        found.append(Difference(what=f"the sum over all ranks is {report['sum']}, not {right}",
                                cause="ranks of another run answered"))  # fmt: skip
    if abs(report.get("clock", 0.0)) > _SKEW:
        found.append(
            Difference(
                what=f"its clock is {report['clock']:+.1f} s from rank 0's", cause="no time service on a node"
            )
        )
    threads = plan.request.threads
    if threads is not None and report["threads"] not in (None, str(threads)):
        found.append(Difference(what=f"OMP_NUM_THREADS is {report['threads']}, not {threads}",
                                cause="the spec, a module or a container sets it"))  # fmt: skip
    return found


def _placed(
    planned: RankPlacement, gpu_variable: str | None, report: Report, beside: Sequence[Report]
) -> list[Difference]:
    found = []
    seen, mask = set(report["mask"]), set(planned.mask)
    if seen != mask:
        what = f"may use CPUs {_list(seen)}, not {_list(mask)}"
        found.append(Difference(what=what, cause=_cause(seen, mask, report, beside)))
    elif split := _split(mask, report):
        other = [cpu for its in beside for cpu in set(its["mask"]) & set(split)]
        if other:
            what = f"shares a core with another rank: CPUs {_list(split)} are one core of {report['host']}"
            found.append(Difference(what=what, cause=_SMT))
    adapters = report.get("adapters")
    if planned.nic is not None and adapters and (state := adapters.get(planned.nic, "absent")) not in _UP:
        found.append(
            Difference(
                what=f"its network adapter {planned.nic} is {state}", cause=_ADAPTER[state == "absent"]
            )
        )
    wanted = {"strict": "bind", "preferred": "prefer"}.get(planned.memory.policy)
    policy = report["memory"]
    if wanted and planned.memory.nodes and policy is not None and not policy.startswith(wanted):
        found.append(Difference(what=f"memory policy is {policy}, not {planned.memory.policy}",
                                cause="numactl is missing on the node, or refused"))  # fmt: skip
    gpus = ",".join(map(str, planned.gpus))
    if gpu_variable and gpus and report["gpus"].get(gpu_variable) != gpus:
        found.append(Difference(what=f"{gpu_variable} is {report['gpus'].get(gpu_variable)}, not {gpus}",
                                cause="the scheduler, a container or the environment sets it"))  # fmt: skip
    return found


_UP = ("active", "up", "unknown")
"""States of an adapter that works; drivers without a state of their own say `unknown`."""
_ADAPTER = (
    "a cable, a port of the switch or the subnet manager",
    "a driver is not loaded, or the profile is of other nodes",
)

_SMT = (
    "SMT numbering: the node counts its hardware threads otherwise than the profile (`lscpu -e` shows them)"
)


def _cause(seen: set[int], mask: set[int], report: Report, beside: Sequence[Report]) -> str:
    """Why a rank has other CPUs than planned: who took them away, by what the rank saw of each in turn."""
    granted, inherited = set(report.get("granted") or ()), set(report.get("inherited") or ())
    if granted and not mask <= granted:
        return f"the job's control group has CPUs {_list(granted)} alone: that is what the scheduler granted"
    if inherited and not mask <= inherited:
        others = [set(its["inherited"]) for its in beside if its.get("inherited")]
        if any(other != inherited for other in others):
            return f"the launcher's own binding: it started this rank with CPUs {_list(inherited)}, others with others"
        return f"an inherited mask: it was started with CPUs {_list(inherited)}, as was every rank of {report['host']}"
    if _split(mask, report):
        return _SMT
    if seen > mask:
        return "nothing bound it: taskset is missing, or a library binds threads by itself"
    if not seen & mask or len(seen) == len(mask):
        return "the job was granted other cores, or the node numbers its cores otherwise than the profile"
    return "the job was granted fewer cores: an inherited mask, a cgroup, or reserved cores"


def _split(mask: set[int], report: Report) -> list[int]:
    """The first core of the node of which a planned mask has a part only; empty if it has whole ones."""
    return next((core for core in report.get("cores") or () if 0 < len(mask & set(core)) < len(core)), [])


def _shared(rank: int, report: Report, found: Mapping[int, Report]) -> list[Difference]:
    """Where cores are shared out in the job, ranks of a node must not have the same ones."""
    mine = set(report["mask"])
    others = [
        other for other, its in found.items()
        if other != rank and its["host"] == report["host"] and mine & set(its["mask"])
    ]  # fmt: skip
    if not others:
        return []
    what = f"shares CPUs with rank{'s' if len(others) > 1 else ''} {format_list(sorted(others))}"
    return [
        Difference(
            what=what, cause="the job was granted fewer cores than it has ranks, or ranks are not bound"
        )
    ]


def _variables(plan: Plan, report: Report) -> list[Difference]:
    """Variables of the plan that steer communication and are something else in the rank."""
    found: list[Difference] = []
    if (seen := report.get("variables")) is None:
        return found
    for variable in plan.variables:
        wanted = variable.value.literal
        steers = variable.rule.startswith("fabric") or variable.name in seen
        if wanted is None or not steers or variable.name == "OMP_NUM_THREADS":
            continue
        if (value := seen.get(variable.name)) != wanted:
            what = f"{variable.name} is {value if value is not None else 'not set'}, not {wanted}"
            cause = "a module, the launcher, a container or a start-up file of the shell sets it afterwards"
            found.append(Difference(what=what, cause=cause))
    return found


def _library(plan: Plan, report: Report, fabric: FabricCheck | None) -> list[Difference]:
    """The all-reduce by the communication library: was it right, and over what did the library talk?"""
    said = report.get("library")
    if said is None:
        cause = "it was ended before, by the walltime or the library: see its log"
        return [Difference(what="did not end its test of the communication library", cause=cause)]
    if "failed" in said:
        what = f"{said.get('by', 'the communication library')} fails: {said['failed']}"
        named = ", ".join(fabric_interfaces(plan)) or "the library's own choice of interface"
        cause = (
            f"ranks do not reach one another over what the library uses ({named}), or its build does not fit"
        )
        return [Difference(what=what, cause=cause)]
    if "sums" not in said:  # there is no library
        return []
    found, ranks = [], plan.request.ranks
    right = ranks * (ranks + 1) // 2
    if said["sums"] != [right, right] or said["before"] != (report["rank"] - 1) % ranks:
        what = f"{said['by']} gets wrong numbers: sums {said['sums']}, from rank {said['before']}"
        found.append(Difference(what=what, cause="a faulty node or network, or ranks of another run"))
    chosen = report.get("transport")
    if chosen is not None and fabric is not None:
        found += _fallen_back(chosen, report, fabric)
    return found


def _fallen_back(chosen: Report, report: Report, fabric: FabricCheck) -> list[Difference]:
    transport = chosen["transport"]
    if transport not in NAMES or transport in fabric.expect:
        return []
    what = f"{chosen['library']} talks over {NAMES[transport]}, and this is {fabric.fabric}"
    locked = report["locked_memory"]
    if fabric.advice:
        cause = fabric.advice
    elif chosen["library"] == "Gloo":
        cause = "Gloo knows sockets alone: torch saw no GPU, or was built without NCCL"
    elif transport == TCP and fabric.fabric in _RDMA and 0 <= locked < _LOCKED:
        cause = f"it may lock only {locked >> 10} KiB of memory (`ulimit -l`): the scheduler's daemon has that limit"
    else:
        cause = "the job's environment lacks the fabric's plugin or driver, or a variable turns it off"
    return [Difference(what=what, cause=cause)]


def fabric_interfaces(plan: Plan) -> tuple[str, ...]:
    """The network interfaces that the plan's variables name."""
    values = [v.value.literal for v in plan.variables if v.name.endswith(("SOCKET_IFNAME", "TCP_IFACE"))]
    return tuple(dict.fromkeys(value for value in values if value))


def _list(cpus: Iterable[int]) -> str:
    return format_list(sorted(cpus))
