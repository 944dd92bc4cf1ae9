"""Compare the reports of ranks with the plan: all differences with their likely causes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from dlrun.grouping import grouped
from dlrun.model.cpuset import format_list, parse_list
from dlrun.model.placement import Placement, RankPlacement
from dlrun.model.plan import FabricCheck, Plan
from dlrun.model.topology import VISIBILITY
from dlrun.plan.affinity.observed import (
    UNKNOWN,
    memory,
    too_few_cpus,
    wrong_cpus,
    wrong_gpus,
    wrong_memory,
    wrong_threads,
)
from dlrun.site.verify import network as verify_network
from dlrun.site.verify.report import Checked, Difference, NodeRanks, Planned, Report, listed


def compare_check(
    plan: Plan,
    reports: Mapping[int, Report],
    hosts: Sequence[str],
    fabric: FabricCheck | None = None,
    *,
    interfaces: Sequence[str] = (),
    libraries: bool = False,
) -> list[Checked]:
    """Compare each rank's report with the plan.

    hosts: the job's nodes in order; fabric: expected transports of libraries; interfaces: planned network interfaces (empty:
    any); libraries: whether ranks tested a communication library.
    """
    request, placement = plan.request, plan.binding.placement
    # By node, to find cores that two of its ranks share.
    of_host: dict[str, list[Report]] = grouped((its["host"], its) for its in reports.values())
    limits = _usual_limits(reports.values())
    checked = []
    for rank in range(request.ranks):
        node, local_rank = divmod(rank, request.ranks_per_node)
        planned = _planned(plan, _row(placement, local_rank), hosts[node] if node < len(hosts) else None)
        report = reports.get(rank)
        if report is None:
            lost = Difference(what="it did not report", cause="it never started, or ended early: see its log")
            checked.append(Checked(rank=rank, planned=planned, report=None, differences=(lost,)))
            continue
        # Bound as the local rank that it is, wherever the plan has it.
        place = _row(placement, report["local_rank"])
        differences = _located(planned.host, local_rank, report)
        differences += verify_network.reached(plan, report, reports.get(0), interfaces)
        differences += _threads(plan, report)
        beside = [its for its in of_host[report["host"]] if its is not report]
        if place is not None:
            differences += _placed(place, report, beside)
        elif plan.binding.mode == "job":
            differences += _shared(report, beside)
        elif what := too_few_cpus(report["mask"], request.threads):
            differences.append(Difference(what=what, cause="the launcher or the scheduler binds it to fewer"))
        differences += _gpus(plan, place, report)
        differences += _limits(report, limits)
        differences += _variables(plan, report)
        if libraries:
            differences += verify_network.library(plan, report, fabric)
        checked.append(Checked(rank=rank, planned=planned, report=report, differences=tuple(differences)))
    return checked


def compare_nodes(plan: Plan, reports: Mapping[int, Report], hosts: Sequence[str]) -> list[NodeRanks]:
    """Planned and found ranks of each node, if they differ on one: nodes without any rank first, then in order."""
    request = plan.request
    planned = {
        host: tuple(
            range(node * request.ranks_per_node, min((node + 1) * request.ranks_per_node, request.ranks))
        )
        for node, host in enumerate(hosts)
    }
    runs: dict[str, tuple[int, ...]] = dict.fromkeys(hosts, ())
    for rank, report in sorted(reports.items()):
        runs[report["host"]] = (*runs.get(report["host"], ()), rank)
    nodes = [NodeRanks(host=host, planned=planned.get(host, ()), ranks=its) for host, its in runs.items()]
    if all(node.ranks == node.planned for node in nodes):
        return []
    return sorted(nodes, key=lambda node: bool(node.ranks))


def _row(placement: Placement | None, local_rank: int) -> RankPlacement | None:
    if placement is None or local_rank >= len(placement.ranks):
        return None
    return placement.ranks[local_rank]


def _located(host: str | None, local_rank: int, report: Report) -> list[Difference]:
    """A difference if a rank runs on another node, or has another local rank."""
    if report["host"] == (host or report["host"]) and report["local_rank"] == local_rank:
        return []
    planned = f"{host} as local rank {local_rank}" if host else f"local rank {local_rank}"
    runs = f"runs on {report['host']} as local rank {report['local_rank']}, not on {planned}"
    return [Difference(what=runs, cause="the launcher does not fill nodes in order")]


def _planned(plan: Plan, place: RankPlacement | None, host: str | None) -> Planned:
    threads = plan.request.threads
    if place is None:
        return Planned(host=host, threads=threads)
    wanted = place.memory if place.memory.policy != "none" and place.memory.nodes else None
    return Planned(
        host=host, threads=threads, cpus=tuple(place.mask), gpus=tuple(place.gpus), nic=place.nic,
        memory=memory(wanted.policy, wanted.nodes) if wanted is not None else None,
    )  # fmt: skip


def _threads(plan: Plan, report: Report) -> list[Difference]:
    what = wrong_threads(plan.request.threads, report["threads"])
    if what is None:
        return []
    own = [v.value.literal for v in plan.variables if v.name == "OMP_NUM_THREADS"]
    cause = "a module, a container or a start-up file of the shell sets it"
    if report["threads"] in own:
        cause = "the spec or the site sets it under `environment`; `cpus_per_rank` determines the number of threads"
    return [Difference(what=what, cause=cause)]


def _placed(planned: RankPlacement, report: Report, beside: Sequence[Report]) -> list[Difference]:
    differences = []
    seen, mask = set(report["mask"]), set(planned.mask)
    if what := wrong_cpus(planned.mask, [report["mask"]]):
        differences.append(Difference(what=what, cause=_cause(seen, mask, report, beside)))
    elif split := _split(mask, report):
        other = [cpu for its in beside for cpu in set(its["mask"]) & set(split)]
        if other:
            what = f"shares a core with another rank: CPUs {listed(split)} are one core of its node"
            differences.append(Difference(what=what, cause=_SMT))
    adapters = report.get("adapters")
    if planned.nic is not None and adapters and (state := adapters.get(planned.nic, "absent")) not in _UP:
        differences.append(
            Difference(
                what=f"its network adapter {planned.nic} is {state}", cause=_ADAPTER[state == "absent"]
            )
        )
    return differences + _memory(planned, report)


_UP = ("active", "up", "unknown")
"""States of a working adapter; drivers without a state report `unknown`."""
_ADAPTER = (
    "a cable, a port of the switch or the subnet manager",
    "a driver is not loaded, or the profile describes other nodes",
)

_SMT = "SMT numbering: the node numbers its hardware threads differently from the profile (`lscpu -e` shows them)"


def _cause(seen: set[int], mask: set[int], report: Report, beside: Sequence[Report]) -> str:
    """The likely cause of wrong CPUs, from the CPUs that node, control group and launcher left to the rank."""
    online, granted, inherited = (set(report.get(name) or ()) for name in ("online", "granted", "inherited"))
    if online and not mask <= online:
        return f"its node has CPUs {listed(online)} alone: the profile is of other nodes"
    if granted and not mask <= granted:
        return f"the job's control group has CPUs {listed(granted)} alone: that is what the scheduler granted"
    if inherited and not mask <= inherited:
        others = [set(its["inherited"]) for its in beside if its.get("inherited")]
        if any(other != inherited for other in others):
            return f"the launcher's own binding: it started this rank with CPUs {listed(inherited)}, others with others"
        if len(inherited) == report.get("scheduler_cpus"):
            return (
                f"the scheduler granted CPUs {listed(inherited)} alone: some of the node are reserved, or "
                "the job asks for too few"
            )
        return f"an inherited mask: it was started with CPUs {listed(inherited)}, like every rank of its node"
    if _split(mask, report):
        return _SMT
    if seen > mask:
        return "it is not bound: taskset is missing, or a library binds threads by itself"
    # It inherited the planned CPUs, but has others.
    if inherited:
        return "the program, a library or a wrapper binds it by itself"
    if not seen & mask or len(seen) == len(mask):
        return "the job was granted other cores, or the node numbers its cores differently from the profile"
    return "the job was granted fewer cores: an inherited mask, a cgroup, or reserved cores"


def _split(mask: set[int], report: Report) -> list[int]:
    """The hardware threads of the first core that a planned mask contains only partly; empty if none."""
    return next((core for core in report.get("cores") or () if 0 < len(mask & set(core)) < len(core)), [])


def _memory(planned: RankPlacement, report: Report) -> list[Difference]:
    """Differences in the memory policy and its NUMA nodes."""
    nodes = set(planned.memory.nodes)
    policy, _, seen = (report["memory"] or UNKNOWN).partition(":")
    what = wrong_memory(planned.memory, policy, parse_list(seen))
    if what is None:
        return []
    known = set(report.get("numa") or ())
    if known and not nodes <= known:
        cause = f"its node has the NUMA nodes {listed(known)} alone: the profile is of other nodes"
    elif report.get("numactl") is False:
        cause = "numactl is not installed on the node, or not on the job's PATH"
    elif policy == planned.memory.policy:
        cause = "the job's control group has other NUMA nodes, or the program sets a policy by itself"
    else:
        cause = "numactl is missing on the node, or refused"
    return [Difference(what=what, cause=cause)]


def _shared(report: Report, beside: Sequence[Report]) -> list[Difference]:
    """Differences: ranks of a node with common CPUs, if the job assigns cores itself."""
    mine = set(report["mask"])
    others = sorted(its["rank"] for its in beside if mine & set(its["mask"]))
    if not others:
        return []
    what = f"shares CPUs with rank{'s' if len(others) > 1 else ''} {format_list(others)}"
    cause = "the job was granted fewer cores than it has ranks, or ranks are not bound"
    return [Difference(what=what, cause=cause)]


def _gpus(plan: Plan, place: RankPlacement | None, report: Report) -> list[Difference]:
    """Differences in the visible GPUs and those that the rank may open."""
    variable, request = plan.binding.gpu_variable, plan.request
    per_node = request.gpus_per_node or 0
    assigned = report.get("given_gpus")
    cards = bool(report.get("cards"))
    left = cards and variable == VISIBILITY["ze"]  # to the user, who lets Level Zero count cards
    if assigned is None and variable and not left and place is not None and place.gpus:
        assigned = f"{variable}={','.join(map(str, place.gpus))}"
    per_rank = per_node // request.ranks_per_node
    wrong = wrong_gpus(per_rank, per_node, assigned, report["gpus"], report.get("gpu_devices"), cards=cards)
    if wrong is None:
        return []
    cause = "the others are in the job's control group, or the driver has lost some"
    if wrong.by_variable:
        cause = "the scheduler, a container or the environment sets it"
    return [Difference(what=wrong.what, cause=cause)]


_LIMITS = {"open_files": ("may open", "files", "-n"), "locked_memory": ("may lock", "bytes of memory", "-l")}
"""Limits inherited from a node's scheduler daemon -> verb, unit, option of `ulimit`."""


def _usual_limits(reports: Iterable[Report]) -> dict[str, int]:
    """The most frequent value of each limit; the higher of equally frequent ones."""
    usual: dict[str, int] = {}
    every = list(reports)
    for name in _LIMITS:
        counts = Counter(_limit(its, name) for its in every if name in its)
        if counts:
            usual[name] = max(counts, key=lambda value: (counts[value], value))
    return usual


def _limit(report: Report, name: str) -> int:
    return int(report[name]) if report[name] >= 0 else 1 << 63  # -1: unlimited


def _limits(report: Report, usual: Mapping[str, int]) -> list[Difference]:
    """Differences: limits lower than those of most ranks."""
    differences = []
    for name, least in usual.items():
        if name not in report or (mine := _limit(report, name)) >= least:
            continue
        verb, of, option = _LIMITS[name]
        most = "any number" if least == 1 << 63 else least
        what = f"{verb} {mine} {of}, and most ranks {most} (`ulimit {option}`)"
        cause = "the scheduler's daemon on its node was started with another limit"
        differences.append(Difference(what=what, cause=cause))
    return differences


def _variables(plan: Plan, report: Report) -> list[Difference]:
    """Differences: communication variables of the plan with another value in the rank."""
    differences: list[Difference] = []
    if (seen := report.get("variables")) is None:
        return differences
    for variable in plan.variables:
        wanted = variable.value.literal
        steers = variable.rule.startswith("fabric") or variable.name in seen
        if wanted is None or not steers or variable.name == "OMP_NUM_THREADS":
            continue
        if (value := seen.get(variable.name)) != wanted:
            what = f"{variable.name} is {value if value is not None else 'not set'}, not {wanted}"
            cause = "a module, the launcher, a container or a start-up file of the shell sets it afterwards"
            differences.append(Difference(what=what, cause=cause))
    return differences
