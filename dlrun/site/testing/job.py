"""One job of `dlrun site test`: a job of the profile whose nodes report their facts."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event

from dlrun.config.block_text import block
from dlrun.errors import OperationFailed
from dlrun.jobs.logs import files as log_files
from dlrun.jobs.queue import watch
from dlrun.jobs.queue.unrecorded import cancel_id
from dlrun.jobs.records.jobs import Job
from dlrun.jobs.submission.files import BUNDLE
from dlrun.jobs.submission.prepare import prepare, spec_inputs
from dlrun.jobs.submission.submit import check_with_scheduler, submit
from dlrun.model.job import State
from dlrun.model.plan import Plan
from dlrun.model.site import Site
from dlrun.model.spec import Spec
from dlrun.model.units import Duration
from dlrun.plan.runtime_checks import expected
from dlrun.render.shell import quote
from dlrun.site.testing import answers
from dlrun.site.testing.answers import NodeAnswers
from dlrun.site.testing.places import Place
from dlrun.site.verify.compare import compare_check
from dlrun.site.verify.job import check_of, hosts_of, modules_of, reports, unseen_of
from dlrun.site.verify.report import Checked
from dlrun.system.inputs.spec import Inputs
from dlrun.system.writing import write_below

POLL = 0.3
"""Seconds between looks at a job's state; the watcher queries the scheduler less often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestOptions:
    """The site (name or file), arguments of `--set`, the maximum time in the queue, and an event that ends all jobs."""

    site: str
    sets: Sequence[str]
    wait: Duration
    notice: Callable[[str], None]
    stop: Event = field(default_factory=Event)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceReport:
    """The result of one place: inputs, the nodes' answers, the ranks, and the end of the job.

    Reasons: transport: the communication library's transport was not seen; refused: the scheduler refused all jobs;
    without_gpus: it accepted only a job without GPUs; waited: the job did not start in time.
    """

    place: Place
    inputs: Inputs
    nodes: Mapping[str, NodeAnswers]
    ranks: Sequence[Checked] = ()
    job_id: str | None = None
    log: str = ""
    transport: str | None = None
    refused: str | None = None
    without_gpus: str | None = None
    waited: str | None = None


def inputs_of(place: Place, site: str, sets: Sequence[str], **resources: object) -> Inputs:
    """The inputs of a job at a place; raises InvalidFile for an invalid profile or `sets`."""
    wanted = {
        **({"partition": place.partition} if place.partition else {}),
        **({"node_type": place.node_type} if place.node_type else {}),
        "nodes": place.nodes,
        "ranks_per_node": 1,
        "walltime": str(place.walltime),
        **resources,
    }
    spec: dict[str, object] = {
        "name": "site-test",
        "framework": "torch",
        "command": ["true"],
        "resources": wanted,
    }
    spec["placement"] = {"memory": "none"}
    with tempfile.TemporaryDirectory(prefix="dlrun-site-test-") as name:
        path = write_below(Path(name), "spec.yaml", "\n".join(block(spec, {})) + "\n")
        return spec_inputs(path, sets=sets, site=site)


def plan_of(inputs: Inputs) -> Plan:
    """The plan of such a job."""
    return prepare(inputs.path, inputs=inputs).plan


def run(place: Place, ask: TestOptions) -> PlaceReport:
    """Submit the job of a place, wait for its end, and parse its output."""
    inputs = inputs_of(place, ask.site, ask.sets, cpus_per_rank=1)
    without_gpus = None
    try:
        job = _submitted(inputs, ask.notice)
    except OperationFailed as error:
        refused = f"{error.message}{f' ({error.help})' if error.help else ''}"
        try:
            inputs = inputs_of(place, ask.site, [*ask.sets, "resources.gpus_per_node=0"], cpus_per_rank=1)
            job = _submitted(inputs, ask.notice)
        except OperationFailed:
            return PlaceReport(place=place, inputs=inputs, nodes={}, refused=refused)
        without_gpus = refused
    ask.notice(
        f"{place}: job {job.job_id} on {place.nodes} node{'s' * (place.nodes > 1)}; directory: {job.directory}"
    )
    if not _ended(job, ask):
        late = (
            f"job {job.job_id} had not started after {ask.wait}, and was cancelled (`--wait` sets the time)"
        )
        return PlaceReport(place=place, inputs=inputs, nodes={}, waited=late)
    plan = plan_of(_asking(inputs))
    over = inputs.site.fabric.interfaces if inputs.site.fabric is not None else ()
    by_rank = reports(job.directory)
    fabric, modules = expected(inputs.site, "warn"), _modules(inputs.spec)
    ranks = compare_check(
        plan, by_rank, hosts_of(job.directory), fabric, interfaces=over, libraries=bool(modules)
    )
    log = log_files.text(log_files.find(job.directory, "job")[0])
    return PlaceReport(
        place=place,
        inputs=inputs,
        nodes=answers.read(job.directory),
        ranks=ranks,
        job_id=job.job_id,
        transport=unseen_of(ranks, modules, fabric, inputs.site.name),
        log="\n".join([line for line in log if line.strip()][-3:]),
        without_gpus=without_gpus,
    )


def _ended(job: Job, ask: TestOptions) -> bool:
    """Wait for a job's end; False if it was cancelled, because it did not start in time or the test was interrupted."""
    watcher = watch.Watcher(job, lambda why: ask.notice(f"job {job.job_id} is {why}"))
    deadline = time.monotonic() + ask.wait
    while not watcher.ended():
        waits = all(run.state in (State.PENDING, State.HELD) for run in watcher.states)
        if ask.stop.is_set() or (waits and time.monotonic() > deadline):
            cancel_id(str(job.job_id), job.scheduler)
            return False
        time.sleep(POLL)
    return True


def accepts(place: Place, site: str, sets: Sequence[str], **resources: object) -> str | None:
    """The scheduler's reason to refuse a job with these resources; None if it would accept it."""
    try:
        check_with_scheduler(plan_of(inputs_of(place, site, sets, **resources)), None)
    except OperationFailed as error:
        return error.message
    return None


def _submitted(inputs: Inputs, notice: Callable[[str], None]) -> Job:
    plan = plan_of(_asking(inputs))
    # PBS accepts jobs that can never run, and leaves them in the queue.
    check_with_scheduler(plan, None)
    roles = tuple(replace(role, files=(*role.files, BUNDLE)) for role in plan.roles)
    return submit(replace(plan, roles=roles), None, notice=notice).job


def _asking(inputs: Inputs) -> Inputs:
    """The inputs with the questions as command and as first set-up line, before modules are loaded."""
    questions = json.dumps(_questions(inputs.site))
    over = inputs.site.fabric.interfaces if inputs.site.fabric is not None else ()
    spec = check_of(inputs.spec, _modules(inputs.spec), over)
    program = f'dlrun_python "$DLRUN_JOB_DIR/{BUNDLE}" check-site'
    first = f'{program} {quote(questions)} >"$DLRUN_JOB_DIR/{answers.FIRST}" || true'
    environment = replace(inputs.site.environment, setup=(first, *inputs.site.environment.setup))
    place = spec.command.index("check-rank")
    command = (*spec.command[:place], "check-site", questions, *spec.command[place + 1 :])
    return replace(
        inputs,
        site=replace(inputs.site, environment=environment),
        spec=replace(spec, name=inputs.spec.name, command=command),
    )


def _modules(spec: Spec) -> tuple[str, ...]:
    """The communication libraries to test; none for one node, which does not use the fabric."""
    return modules_of(spec) if spec.resources.nodes != 1 else ()


def _questions(site: Site) -> dict[str, object]:
    local = site.storage.node_local
    return {
        "setup": site.environment.setup,
        "hygiene": site.environment.hygiene,
        "modules": site.environment.modules,
        "node_local": local.path if local is not None else None,
        "shared": site.storage.shared,
        "names": ["{host}" + site.rendezvous.suffix] if site.rendezvous.suffix else [],
    }
