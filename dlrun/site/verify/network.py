"""Compare the connections of ranks and the transport of their library with the plan. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from dlrun.model.plan import FabricCheck, Plan
from dlrun.node.checks.node_checks import SKEW
from dlrun.node.checks.transport_lines import NAMES, TCP
from dlrun.site.verify.report import Difference, Report

_LOCKED = 64 << 20
"""Bytes of memory that a rank must be able to lock for RDMA; system defaults are lower."""
_RDMA = ("infiniband", "roce", "omni-path")


def interfaces_of(plan: Plan) -> tuple[str, ...]:
    """The network interfaces in the plan's variables."""
    values = [v.value.literal for v in plan.variables if v.name.endswith(("SOCKET_IFNAME", "TCP_IFACE"))]
    return tuple(dict.fromkeys(value for value in values if value))


def reached(plan: Plan, report: Report, first: Report | None, interfaces: Sequence[str]) -> list[Difference]:
    """Differences in the rendezvous, sum, clock, and 1 MiB test over the planned interfaces.

    first: report of rank 0, or None.
    """
    differences = []
    if "unreached" in report:
        what = f"does not reach rank 0 at {report.get('rendezvous')}: {report['unreached']}"
        cause = f"the site's rendezvous rule ({plan.rendezvous.rule}), or a firewall"
        if report["rank"] == 0:
            what = f"was not reached by all others: {report['unreached']}"
        differences.append(Difference(what=what, cause=cause))
    elif report["sum"] != (right := plan.request.ranks * (plan.request.ranks + 1) // 2):
        differences.append(Difference(what=f"the sum over all ranks is {report['sum']}, not {right}",
                                cause="ranks of another run answered"))  # fmt: skip
    if abs(report.get("clock", 0.0)) > SKEW:
        what = f"its clock is {report['clock']:+.1f} s from rank 0's"
        differences.append(Difference(what=what, cause="no time service on a node"))
    over = ", ".join(interfaces)
    if "unsent" in report:
        what = f"a message of 1 MiB does not reach rank 0 at {report['unsent_to']}{over and ' over ' + over}: {report['unsent']}"
        cause = "a cable, a firewall, or a wrong address or netmask of that interface"
        differences.append(Difference(what=what, cause=cause))
    if interfaces and (used := report.get("interface")) not in (None, "lo", *interfaces):
        both = [end for end in (report, first) if end]
        lacks = [end["host"] for end in both if not set(interfaces) & set(end.get("addresses", ()))]
        who = list(dict.fromkeys(lacks)) or ["a node"]
        lack = f"{' and '.join(who)} {'have' if who[1:] else 'has'} no address on {over}"
        cause = f"{lack}: it is down, or the profile is of other nodes"
        differences.append(Difference(what=f"reaches rank 0 over {used}, not {over}", cause=cause))
    return differences


def library(plan: Plan, report: Report, fabric: FabricCheck | None) -> list[Difference]:
    """Differences in the communication library's all-reduce: its result and transport."""
    result = report.get("library")
    if result is None:
        cause = "it was ended before, by the walltime or the library: see its log"
        return [Difference(what="did not finish its test of the communication library", cause=cause)]
    if "failed" in result:
        what = f"{result.get('by', 'the communication library')} fails: {result['failed']}"
        over = ", ".join(interfaces_of(plan)) or "the library's own choice of interface"
        cause = (
            f"ranks do not reach one another over what the library uses ({over}), or its build does not fit"
        )
        return [Difference(what=what, cause=cause)]
    if "sums" not in result:  # there is no library
        return []
    differences, ranks = [], plan.request.ranks
    right = ranks * (ranks + 1) // 2
    if result["sums"] != [right, right] or result["before"] != (report["rank"] - 1) % ranks:
        what = f"{result['by']} receives wrong numbers: sums {result['sums']}, from rank {result['before']}"
        differences.append(Difference(what=what, cause="a faulty node or network, or ranks of another run"))
    if result.get("gpus") == 0 and plan.request.gpus_per_node:
        cause = "it was built for CPUs, its build does not fit the driver, or a variable hides the GPUs"
        what = f"{result['by']} detects no GPU, but the plan has some"
        differences.append(Difference(what=what, cause=cause))
    if fabric is not None and (chosen := report.get("transport")) is not None:
        differences += _fallen_back(chosen, report, fabric)
    return differences


def _fallen_back(chosen: Report, report: Report, fabric: FabricCheck) -> list[Difference]:
    transport = chosen["transport"]
    if transport not in NAMES or transport in fabric.expect:
        return []
    what = f"{chosen['library']} uses {NAMES[transport]}, but this is {fabric.fabric}"
    if fabric.advice:
        cause = fabric.advice
    elif chosen["library"] == "Gloo":
        cause = "Gloo supports only sockets: torch detected no GPU, or was built without NCCL"
    elif transport == TCP and fabric.fabric in _RDMA and 0 <= (locked := report["locked_memory"]) < _LOCKED:
        cause = f"it may lock only {locked >> 10} KiB of memory (`ulimit -l`): the scheduler's daemon has that limit"
    else:
        cause = "the job's environment lacks the fabric's plugin or driver, or a variable turns it off"
    return [Difference(what=what, cause=cause)]
