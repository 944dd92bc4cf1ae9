"""The HTML report of a job, from its directory: plan, placement, timeline, results, ends of logs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from dlrun import __version__
from dlrun.config.secret_names import looks_secret, masked, stars
from dlrun.effects.inputs.spec import load_spec, topology_for_spec
from dlrun.effects.logs import files as log_files
from dlrun.effects.paths import open_regular
from dlrun.effects.queue.results import results_of
from dlrun.effects.records.jobs import Job
from dlrun.effects.records.validation import run_state
from dlrun.effects.usage.formats import meter, quantity, size, sparkline
from dlrun.effects.usage.job import RunUse, of_run
from dlrun.effects.usage.overview import bars, times
from dlrun.errors import DlrunError
from dlrun.model.job import JobStatus, State
from dlrun.model.plan import Plan
from dlrun.model.spec import SHELL
from dlrun.model.units import Duration
from dlrun.render.affinity.drawing.svg import svg
from dlrun.render.job_page import JobReport, LogEnd, Section, Span
from dlrun.render.shell import join

_TAIL = 6000
"""Bytes of each log that are shown."""
_RANKS = 64
"""Maximum ranks per run in the usage table."""
_RUNS = 40
"""Maximum number of runs in the timeline."""
_LOGS = 8
"""Maximum number of logs: the job's and those of its first ranks."""


def report_of(job: Job, states: Sequence[JobStatus], cause: Sequence[str]) -> JobReport:
    """The report of a job; cause: lines of `dlrun why`. Raises OperationFailed if its plan cannot be read."""
    plan = job.plan()
    final = [one for one in states if one.state.final]
    failed = [one for one in states if one.state.final and one.state is not State.COMPLETED]
    shown = failed[0].state if failed else states[0].state if states else State.UNKNOWN
    return JobReport(
        title=f"{job.name} · {job.site} · {job.job_id or 'not submitted'}",
        state=str(shown) if len(states) < 2 else f"{len(final) - len(failed)} of {len(states)} points completed",
        good=None if len(final) < len(states) or not states else not failed,
        facts=tuple(_facts(job, plan, states)),
        cause=tuple(map(masked, cause)),
        warnings=plan.warnings,
        timeline=tuple(_timeline(job, states)),
        picture=_picture(job, plan),
        sections=(
            _results(job, plan),
            *_usage(job, plan, states),
            Section(
                title="Variables", header=("variable", "value", "because"),
                rows=[
                    (v.name, stars(str(v.value)) if looks_secret(v.name) else str(v.value), v.because)
                    for v in plan.variables
                ],
            ),
            Section(
                title="Decisions", header=("key", "value", "rule", "because"),
                rows=[
                    (d.key, stars(str(d.value)) if looks_secret(d.key.rpartition(".")[2]) else str(d.value), d.rule, d.because)
                    for d in plan.decisions
                ],
            ),
        ),
        logs=tuple(_logs(job)),
        made=f"Written by dlrun {__version__} on {time.strftime('%Y-%m-%d %H:%M %Z')} from {job.directory}.",
    )  # fmt: skip


def _facts(job: Job, plan: Plan, states: Sequence[JobStatus]) -> Iterator[tuple[str, str]]:
    request = plan.request
    yield "site", f"{plan.site} ({plan.scheduler}), {plan.framework} started by {plan.launch.name}"
    yield (
        "nodes",
        f"{request.nodes}, {request.ranks} ranks"
        + (f", {request.gpus_per_node} GPUs on each node" if request.gpus_per_node else ""),
    )
    if used := sorted({one.nodes for one in states if one.nodes}):
        yield "ran on", ", ".join(used)
    if request.walltime:
        yield "walltime", str(request.walltime)
    if request.partition:
        yield "partition", request.partition
    argv = plan.roles[0].argv
    text = tuple(map(str, argv[-len(SHELL) - 1 : -1])) == SHELL
    yield "command", _without_secrets(str(argv[-1]) if text else join(argv))
    yield "directory", plan.directory
    codes = sorted({one.exit_code for one in states if one.exit_code})
    if codes:
        yield "exit code", ", ".join(map(str, codes))
    yield "job directory", job.shown_path(job.directory)


def _timeline(job: Job, states: Sequence[JobStatus]) -> Iterator[Span]:
    """Spans of queue, preparation and training of each run, from the job's state.json; a running one ends now."""
    now = time.time()
    runs = list(zip(job.run_directories(), states, strict=False))
    for number, (run, status) in enumerate(runs[:_RUNS]):
        record = run_state(run) or {}
        began, ended = record.get("started"), record.get("ended")
        name = f"point {number}: " if len(runs) > 1 else ""
        if job.submitted and not record.get("restarts"):
            # min: the clock of the node may be behind that of the submission.
            yield Span(
                name=f"{name}queue", kind="queue", begin=min(job.submitted, began or now), end=began or now
            )
        if began is None:
            continue
        launched = record.get("launched") or began
        end = ended or (now if not status.state.final else launched)
        yield Span(name=f"{name}set-up and staging", kind="prepare", begin=began, end=launched)
        bad = status.state.final and status.state is not State.COMPLETED
        yield Span(
            name=f"{name}training", kind="bad" if bad else "train", begin=launched, end=max(launched, end)
        )


def _picture(job: Job, plan: Plan) -> str | None:
    """The placement of a node as SVG, from the job's copies of spec and site; None if they do not describe nodes."""
    placement = plan.binding.placement
    if placement is None:
        return None
    try:
        inputs = load_spec(job.directory / "spec.yaml", site=str(job.directory / "site.yaml"))
        topology = topology_for_spec(inputs)
        return svg(placement, topology) if topology is not None else None
    except (DlrunError, KeyError, ValueError):
        return None


def _results(job: Job, plan: Plan) -> Section:
    try:
        found = results_of(job)
    except DlrunError:
        found = []
    names = list(dict.fromkeys(name for one in found for name in one.metrics))
    parameters = list(plan.points[0].parameters) if plan.points else []
    rows = [
        [
            *(one.parameters.get(name, "") for name in parameters),
            str(one.state),
            str(Duration(round(one.elapsed))) if one.elapsed is not None else "",
            *(
                f"{one.metrics[name].value:.6g} {one.metrics[name].unit}" if name in one.metrics else ""
                for name in names
            ),
        ]
        for one in found
    ]
    return Section(title="Results", header=(*parameters, "state", "time", *names), rows=rows)


def _usage(job: Job, plan: Plan, states: Sequence[JobStatus]) -> Iterator[Section]:
    """The tables of `dlrun usage`: what was requested and used, ranks, GPUs, verdicts."""
    runs = zip(job.run_directories(), states, strict=False)
    found = [of_run(job, plan, run, one, number) for number, (run, one) in enumerate(runs)]
    first = ("point",) if len(found) > 1 else ()

    def section(
        title: str, header: tuple[str, ...], rows: Callable[[RunUse], Iterator[list[str]]]
    ) -> Section:
        lines = [[*([str(run.point)] if first else []), *row] for run in found for row in rows(run)]
        return Section(title=title, header=(*first, *header), rows=lines)

    asked = section("Requested and used", ("what", "share", "used"), lambda run: _asked(plan, run))
    gpus = section("GPUs", ("GPU", "node", "ranks", "busy", "over time", "memory", "power", "clock"), _gpus)
    yield from (one for one in (asked,) if one.rows)
    yield section(
        "Usage",
        ("rank", "node", "cores used", "over time", "memory peak", "over time", "read", "written"),
        _ranks,
    )
    yield from (one for one in (gpus,) if one.rows)
    yield section(
        "Verdicts",
        ("verdict", "evidence", "change"),
        lambda run: ([one.rule, one.evidence, one.change or ""] for one in run.verdicts),
    )


def _asked(plan: Plan, run: RunUse) -> Iterator[list[str]]:
    if run.use.nodes:
        yield ["time", "", times(run)]
        for name, share, text in bars(plan, run):
            yield [name, "" if share is None else f"{meter(share)} {share:.0%}", text]


def _ranks(run: RunUse) -> Iterator[list[str]]:
    for one in run.use.ranks[:_RANKS]:
        yield [
            one.rank, one.node, f"{one.used:.2f} of {one.cores}", sparkline(one.cpu_curve), size(one.peak),
            sparkline(one.memory_curve), size(one.read), size(one.written),
        ]  # fmt: skip


def _gpus(run: RunUse) -> Iterator[list[str]]:
    for one in run.use.gpus[:_RANKS]:
        yield [
            str(one.index), one.node, " ".join(one.ranks) or "-", quantity(one.busy, "%"), sparkline(one.busy_curve, 100),
            f"{size(one.memory)} of {size(one.total)}", quantity(one.power, "W"), quantity(one.clock, "MHz"),
        ]  # fmt: skip


def _logs(job: Job) -> Iterator[LogEnd]:
    found = [log for run in job.run_directories() for log in log_files.find(run, "first")]
    for log in found[:_LOGS]:
        text, before = _tail(log.path)
        if text.strip():
            yield LogEnd(name=str(log.path.relative_to(job.directory)), text=text, before=before)


def _tail(path: Path) -> tuple[str, int]:
    """The end of a log as text without control characters, and the bytes before it."""
    try:
        with open_regular(path) as stream:
            size = stream.seek(0, 2)
            start = stream.seek(max(0, size - _TAIL))
            data = stream.read()
    except OSError:
        return "", 0
    if start:
        whole = data.partition(b"\n")[2]
        start, data = start + len(data) - len(whole), whole
    text = data.decode("utf-8", errors="replace")
    return _without_secrets("".join(c for c in text if c.isprintable() or c in "\n\t")), start


def _without_secrets(text: str) -> str:
    """Mask the values of names such as `HF_TOKEN=`: a report is made to be sent to others."""
    return "\n".join(map(masked, text.split("\n")))
