"""Runs a job of a spec's exact plan in which each rank says what it is, and holds that against the plan."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dlrun.effects import watch
from dlrun.effects.jobs import Job
from dlrun.effects.prepare import prepare, read
from dlrun.effects.submit import submit
from dlrun.errors import Invalid
from dlrun.model.cpuset import format_list
from dlrun.model.placement import RankPlacement
from dlrun.model.plan import Plan
from dlrun.model.spec import OnFailure, Sweep
from dlrun.model.units import Duration

PROGRAM = "check_rank.py"
LONGEST = Duration(600)
"""Walltime of a check: what a site starts soonest, and far more than it needs."""

_SKEW = 2.0
"""Seconds by which the clocks of two nodes may differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that is not as planned, and what is likely to be behind it."""

    what: str
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One rank: what it reported (None: nothing), and how that differs from the plan."""

    rank: int
    report: Mapping[str, Any] | None
    differences: tuple[Difference, ...]


def run(
    path: Path, *, sets: Sequence[str], site: str | None, say: Callable[[str], None]
) -> tuple[Job, list[Checked]]:
    """Submit the check, wait for it, and compare. Raises what `submit` raises."""
    inputs = read(path, sets=sets, site=site)
    if inputs is None:
        raise Invalid(
            "verify needs a spec, not a saved plan", help="name the spec that the plan was made from"
        )
    walltime = inputs.spec.resources.walltime
    spec = replace(
        inputs.spec,
        name=f"verify-{inputs.spec.name}"[:128],
        command=("python3", "{{ job_dir }}/" + PROGRAM),
        resources=replace(inputs.spec.resources, walltime=min(walltime, LONGEST) if walltime else None),
        sweep=Sweep(), data={}, checkpoint=None, chain=False, on_failure=OnFailure(), after=(), hold=False,
    )  # fmt: skip
    prepared = prepare(path, inputs=replace(inputs, spec=spec))
    roles = tuple(replace(role, files=(*role.files, PROGRAM)) for role in prepared.plan.roles)
    plan = replace(prepared.plan, roles=roles)
    for warning in plan.warnings:
        say(f"warning: {warning}")
    job = submit(plan, None, say=say).job
    say(f"job {job.job_id} checks {plan.request.ranks} ranks; job directory: {job.directory}")
    watcher = watch.Watcher(job, lambda why: say(f"job {job.job_id} is {why}"))
    while not watcher.ended():
        time.sleep(0.2)
    return job, compare(plan, reports(job.directory), _hosts(job.directory))


def reports(run: Path) -> dict[int, dict[str, Any]]:
    """What ranks said of themselves, by rank."""
    found = {}
    for log in (run / "logs").glob("*-*.log"):
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
            _, mark, text = line.partition("dlrun-check ")  # an agent may have put its own mark before it
            if mark:
                report = json.loads(text)
                found[int(report["rank"])] = report
    return found


def compare(plan: Plan, found: Mapping[int, Mapping[str, Any]], hosts: Sequence[str]) -> list[Checked]:
    """Each rank's report beside the plan; `hosts` are the job's nodes in order."""
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
        if placement is not None:
            differences += _placed(placement.ranks[local_rank], plan.binding.gpu_variable, report)
        elif plan.binding.mode == "job":
            differences += _shared(rank, report, found)
        checked.append(Checked(rank=rank, report=report, differences=tuple(differences)))
    return checked


def _common(plan: Plan, report: Mapping[str, Any]) -> list[Difference]:
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


def _placed(planned: RankPlacement, gpu_variable: str | None, report: Mapping[str, Any]) -> list[Difference]:
    found = []
    seen, mask = set(report["mask"]), set(planned.mask)
    if seen != mask:
        if seen > mask:
            cause = "nothing bound it: taskset is missing, or a library binds threads by itself"
        elif not seen & mask or len(seen) == len(mask):
            cause = (
                "the job was granted other cores, or the node numbers its cores otherwise than the profile"
            )
        else:
            cause = "the job was granted fewer cores: an inherited mask, a cgroup, or reserved cores"
        what = f"may use CPUs {format_list(sorted(seen))}, not {format_list(sorted(mask))}"
        found.append(Difference(what=what, cause=cause))
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


def _shared(rank: int, report: Mapping[str, Any], found: Mapping[int, Mapping[str, Any]]) -> list[Difference]:
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


def _hosts(run: Path) -> list[str]:
    """The nodes that the job wrote down when it started; empty if it never did."""
    try:
        return [line.partition(".")[0] for line in (run / "hosts").read_text(encoding="utf-8").split()]
    except OSError:
        return []
