"""Run a job of a spec's exact plan in which each rank reports its placement, and compare it with the plan."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dlrun import backends
from dlrun.errors import Invalid
from dlrun.jobs.clusters.allocation import nodes
from dlrun.jobs.logs import files as log_files
from dlrun.jobs.queue import watch
from dlrun.jobs.records import directories, jobs
from dlrun.jobs.records.jobs import Job
from dlrun.jobs.submission.files import BUNDLE, files
from dlrun.jobs.submission.prepare import prepare, spec_inputs
from dlrun.jobs.submission.submit import submit
from dlrun.model.plan import FabricCheck, Plan
from dlrun.model.spec import OnFailure, Spec, Sweep
from dlrun.model.units import Duration
from dlrun.node.checks import transport_lines
from dlrun.plan.runtime_checks import VERBOSE, expected, granted
from dlrun.render.written_names import written_names
from dlrun.site.verify.compare import compare_check, compare_nodes
from dlrun.site.verify.network import interfaces_of
from dlrun.site.verify.report import Checked, NodeRanks
from dlrun.system.paths import text_of
from dlrun.system.process import run as run_program
from dlrun.system.writing import append_to

LONGEST = Duration(600)
"""Walltime of a check in seconds: short, to start soon, but more than it needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The expected transports (None: no known fabric), the planned interfaces (empty: any), and the reason why a
    transport was not seen or compared."""

    fabric: FabricCheck | None
    interfaces: tuple[str, ...] = ()
    unseen: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """The result of a check."""

    job: Job
    ranks: list[Checked]
    nodes: list[NodeRanks]
    """All nodes, if one has other ranks than planned; those without any rank first."""
    network: Network


def run(
    path: Path, *, sets: Sequence[str], site: str | None, here: bool = False, notice: Callable[[str], None]
) -> Verified:
    """Submit the check, or with `here` run it in this shell's allocation; wait for its end, and compare.

    Raises like `submit` and `allocation.run`.
    """
    inputs = spec_inputs(path, sets=sets, site=site)
    nodes = inputs.spec.resources.nodes
    modules = modules_of(inputs.spec) if nodes != 1 else ()
    over = inputs.site.fabric.interfaces if inputs.site.fabric is not None else ()
    prepared = prepare(path, inputs=replace(inputs, spec=check_of(inputs.spec, modules, over)))
    # The ranks run the node program in place of the training.
    roles = tuple(replace(role, files=(*role.files, BUNDLE)) for role in prepared.plan.roles)
    plan = replace(prepared.plan, roles=roles)
    for warning in plan.warnings:
        notice(f"warning: {warning}")
    job = run_here(plan) if here else _submitted(plan, notice)
    fabric = expected(inputs.site, "warn")
    by_rank = reports(job.directory)
    interfaces = tuple(over) or interfaces_of(plan)
    hosts = hosts_of(job.directory)
    ranks = compare_check(plan, by_rank, hosts, fabric, interfaces=interfaces, libraries=bool(modules))
    unseen = unseen_of(ranks, modules, fabric, inputs.site.name)
    return Verified(
        job=job,
        ranks=ranks,
        nodes=compare_nodes(plan, by_rank, hosts),
        network=Network(fabric=fabric, interfaces=interfaces, unseen=unseen),
    )


def _submitted(plan: Plan, notice: Callable[[str], None]) -> Job:
    """Submit the check as a separate job, and wait for its end."""
    job = submit(plan, None, notice=notice).job
    notice(f"job {job.job_id} checks {plan.request.ranks} ranks; job directory: {job.directory}")
    watcher = watch.Watcher(job, lambda why: notice(f"job {job.job_id} is {why}"))
    while not watcher.ended():
        time.sleep(0.2)
    return job


_START = 'python3 -I -c "" 2>/dev/null && exec python3 -I "${@:2}"; exec bash "$@"'
"""The job's own Python has the libraries to test; one that does not run isolated, as with PYTHONHOME, is replaced."""


def check_of(spec: Spec, modules: Sequence[str], over: Sequence[str]) -> Spec:
    """The spec with the check in place of the training, without keys that would end or repeat it."""
    wall = spec.resources.walltime
    words = ("--over", ",".join(over), *modules) if over else tuple(modules)
    variables = {name: value for settings in VERBOSE.values() for name, value in settings} if modules else {}
    return replace(
        spec,
        name=f"verify-{spec.name}"[:128],
        command=("bash", "-c", _START, "bash", "{{ job_dir }}/lib/python.sh", "{{ job_dir }}/" + BUNDLE, "check-rank", *words),
        resources=replace(spec.resources, walltime=min(wall, LONGEST) if wall else None),
        environment=replace(spec.environment, variables={**spec.environment.variables, **variables}),
        sweep=Sweep(), data={}, checkpoint=None, chain=False, on_failure=OnFailure(), after=(), hold=False,
        verify="warn", fabric_check="off", hang=None, usage=False, track=(),
    )  # fmt: skip


def modules_of(spec: Spec) -> tuple[str, ...]:
    """The Python modules for the test of the communication library, the framework's own first."""
    by_mpi = {"mpi-program", "intel-mpi"} & set(backends.framework(spec.framework).LIBRARIES)
    return ("mpi4py", "torch") if by_mpi else ("torch",)


def unseen_of(
    ranks: Sequence[Checked], modules: Sequence[str], fabric: FabricCheck | None, site: str
) -> str | None:
    """The reason why the communication library's transport was not seen or compared, or None."""
    if not modules:
        return "a job on one node does not use the fabric"
    libraries = [checked.report.get("library") or {} for checked in ranks if checked.report is not None]
    if libraries and not any("by" in library for library in libraries):
        return f"the job's python3 has no {' and no '.join(modules)}, so its library cannot be tested"
    if not any(checked.report and checked.report.get("transport") for checked in ranks):
        return "no library logged its transport"
    if fabric is None:
        return f"site `{site}` has no fabric that dlrun knows (`fabric.name`), so any transport is accepted"
    return None


def reports(run: Path) -> dict[int, dict[str, Any]]:
    """Rank -> its report; `library`: result of its test, `transport`: the library's logged transport."""
    by_rank: dict[int, dict[str, Any]] = {}
    tried: dict[int, dict[str, Any]] = {}
    logged: list[transport_lines.Chosen | None] = []
    for log in log_files.find(run, "all")[1:]:
        lines = [part for line in log_files.text(log) for part in line.splitlines()]
        of_log = _marked(lines, "dlrun-check ")
        chosen = transport_lines.chosen(lines)
        logged.append(chosen)
        for report in of_log.values():
            report["transport"] = chosen._asdict() if chosen is not None else None
        by_rank |= of_log
        tried |= _marked(lines, "dlrun-library ")
    for_all = transport_lines.logged_for_all(logged)
    for rank, report in by_rank.items():
        report["library"] = tried.get(rank)
        if report["transport"] is None and for_all is not None:
            report["transport"] = for_all._asdict()
    return by_rank


def _marked(lines: Iterable[str], mark: str) -> dict[int, dict[str, Any]]:
    """Rank -> JSON after a mark, before which the framework's agent may add a prefix to each line."""
    texts = (line.partition(mark)[2] for line in lines)
    every = [json.loads(text) for text in texts if text]
    return {int(record["rank"]): record for record in every}


def hosts_of(run: Path) -> list[str]:
    """The job's nodes, as recorded at its start; empty if it never started."""
    return [line.partition(".")[0] for line in text_of(run / "hosts", 1 << 20).split()]


# Run a check in the allocation of this shell instead of a separate job.

_TIMEOUT = 900.0
"""Time limit of the check in seconds."""


def run_here(plan: Plan) -> Job:
    """Run the plan's script to its end; raises Invalid without an allocation of the plan's size."""
    allocation = backends.scheduler(plan.scheduler).ALLOCATION
    if allocation is None:
        raise Invalid(f"`{plan.scheduler}` has no allocations to run in", help="leave out `--here`")
    job_id = os.environ.get(allocation.job_id)
    if not job_id:
        raise Invalid(
            f"this shell is not in an allocation of {plan.scheduler}",
            help=f"get one with `{allocation.line()}`, or leave out `--here` to submit a job",
        )
    has, wants = nodes(allocation, os.environ), granted(plan.request).nodes
    if has != wants:
        raise Invalid(
            f"allocation {job_id} has {has} nodes, but the plan needs {wants}",
            help="request as many, or use `--set resources.nodes=…`",
        )
    target = directories.new_directory(jobs.home(), plan.name).absolute()
    directories.create(target, files(plan, None, target), written_names(plan))
    done = run_program(("bash", str(target / "job.sh")), directory=target, timeout=_TIMEOUT)
    with append_to(target / "logs" / "job.log") as log:
        log.write((done.stdout + done.stderr).encode(errors="surrogateescape"))
    return Job(
        directory=target, name=plan.name, site=plan.site, scheduler=plan.scheduler, job_id=job_id,
        submitted=time.time(), array=None,
    )  # fmt: skip
