"""The HTML report of a job, from its directory: plan, placement, timeline, results, ends of logs."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from dlrun import __version__
from dlrun.affinity.drawing.svg import svg
from dlrun.config.secret_names import holds_secret, masked, stars, without_secrets
from dlrun.errors import DlrunError
from dlrun.jobs.code.history import History
from dlrun.jobs.logs import files as log_files
from dlrun.jobs.queue.results import Result, results_of
from dlrun.jobs.records import submission, uploads
from dlrun.jobs.records.divisions import divisions
from dlrun.jobs.records.jobs import Job
from dlrun.jobs.records.validation import read_json, run_state
from dlrun.model.job import ROLE_STATE, JobStatus, State
from dlrun.model.plan import Plan
from dlrun.model.spec import SHELL
from dlrun.model.units import Duration, many, plain
from dlrun.render.shell import join
from dlrun.system.inputs.spec import load_spec, topology_for_spec
from dlrun.system.paths import open_regular, read_bytes
from dlrun.usage.formats import quantity, size
from dlrun.usage.job import RunUse, of_points, of_roles
from dlrun.usage.overview import bars, of_cold_start, times
from dlrun.usage.report_page import Bar, Cell, Curve, JobReport, LogEnd, Run, Section, Span

_TAIL = 6000
"""Bytes of each log that are shown."""
_EVENTS = 1 << 22
"""Bytes of a node's events that are read."""
_ROWS = 400
"""Maximum rows of a table of usage, shared equally by the runs."""
_RUNS = 1000
"""Maximum number of runs in the timeline."""
_LOGS = 8
"""Maximum number of logs: the job's and those of its first ranks."""


def report_of(job: Job, states: Sequence[JobStatus], cause: Sequence[str]) -> JobReport:
    """The report of a job; cause: lines of `dlrun why`. Raises OperationFailed if its plan cannot be read."""
    plan = job.plan()
    final = [status for status in states if status.state.final]
    failed = [status for status in states if status.state.final and status.state is not State.COMPLETED]
    shown = failed[0].state if failed else states[0].state if states else State.UNKNOWN
    return JobReport(
        title=f"{job.name} · {job.site} · {job.job_id or 'not submitted'}",
        state=str(shown) if len(states) < 2 else f"{len(final) - len(failed)} of {len(states)} points completed",
        good=None if len(final) < len(states) or not states else not failed,
        facts=tuple(_facts(job, plan, states)),
        counts=tuple(_counts(states)),
        cause=tuple(map(masked, cause)),
        warnings=tuple(map(masked, (*plan.warnings, *(line for run in job.run_directories() for line in divisions(run))))),
        timeline=tuple(_timeline(job, states)),
        pictures=tuple(_pictures(job, plan)),
        sections=(
            _results(job, plan),
            *_data(job),
            *_usage(job, plan, states),
            _set(plan, "Variables", ("variable", "value", "because"), _variables),
            _set(plan, "Decisions", ("key", "value", "rule", "because"), _decisions),
        ),
        logs=tuple(_logs(job)),
        made=f"Written by dlrun {__version__} on {time.strftime('%Y-%m-%d %H:%M %Z')} from {job.directory}.",
    )  # fmt: skip


def _facts(job: Job, plan: Plan, states: Sequence[JobStatus]) -> Iterator[tuple[str, str]]:
    request = plan.request
    yield "site", f"{plan.site} ({plan.scheduler}), {plan.framework} started by {plan.launch.name}"
    yield (
        "nodes",
        f"{request.nodes}, {many(request.ranks, 'rank')}"
        + (f", {many(request.gpus_per_node, 'GPU')} on each node" if request.gpus_per_node else ""),
    )
    if used := sorted({status.nodes for status in states if status.nodes}):
        yield "ran on", ", ".join(used)
    if request.walltime:
        yield "walltime", str(request.walltime)
    if request.partition:
        yield "partition", request.partition
    if changed := submission.changed(job.directory):
        yield "changed by the scheduler", "; ".join(changed)
    if printed := submission.remarks(job.directory):
        yield "printed at the submission", _without_secrets(" / ".join(printed))
    if plan.role_jobs is not None:
        yield (
            "roles",
            ", ".join(f"{role.name} ({many(role.plan.request.nodes, 'node')})" for role in plan.each_role),
        )
    for role, own in _plans(plan):
        argv = own.roles[0].argv
        text = tuple(map(str, argv[-len(SHELL) - 1 : -1])) == SHELL
        of = f" of {role}" if role else f" of point 0 of {len(plan.points)}" if plan.points else ""
        yield f"command{of}", _without_secrets(str(argv[-1]) if text else join(argv))
    for name, values in _parameters(plan).items():
        some = ", ".join(values[:6]) + (f", … {values[-1]} ({len(values)} values)" if len(values) > 6 else "")
        yield f"sweep of {name}", some
    containers = [own.environment.container for _, own in _plans(plan)]
    for image in dict.fromkeys(
        _without_secrets(container.shown) for container in containers if container is not None
    ):
        yield "image", image
    yield "directory", plan.directory
    yield from ((name, _without_secrets(value)) for name, value in History(job).facts())
    codes = sorted({status.exit_code for status in states if status.exit_code})
    if codes:
        yield "exit code", ", ".join(map(str, codes))
    yield "job directory", job.shown_path(job.directory)
    if all(status.state.final for status in states) and (upload := uploads.command(job)) is not None:
        yield "next, on a host with internet", upload


def _plans(plan: Plan) -> Sequence[tuple[str, Plan]]:
    """(name, plan) of each role; without roles the job's own, without a name."""
    return [(role.name, role.plan) for role in plan.each_role] or [("", plan)]


def _set(
    plan: Plan, title: str, header: tuple[str, ...], rows: Callable[[Plan], Iterator[Sequence[Cell]]]
) -> Section:
    """What is set for the job, or for each of its roles."""
    roles = plan.role_jobs is not None
    return Section(
        title=title,
        header=("role", *header) if roles else header,
        rows=[[role, *row] if roles else row for role, own in _plans(plan) for row in rows(own)],
    )


def _variables(plan: Plan) -> Iterator[Sequence[Cell]]:
    for v in plan.variables:
        yield (
            v.name,
            stars(str(v.value)) if holds_secret(v.name, str(v.value)) else without_secrets(str(v.value)),
            v.because,
        )


def _decisions(plan: Plan) -> Iterator[Sequence[Cell]]:
    for d in plan.decisions:
        secret = holds_secret(d.key.rpartition(".")[2], str(d.value))
        yield d.key, stars(str(d.value)) if secret else without_secrets(str(d.value)), d.rule, d.because


def _parameters(plan: Plan) -> dict[str, list[str]]:
    """Parameter of the sweep -> its different values, in order."""
    if not plan.points:
        return {}
    return {
        name: list(dict.fromkeys(point.parameters[name] for point in plan.points))
        for name in plan.points[0].parameters
    }


def _counts(states: Sequence[JobStatus]) -> Iterator[tuple[str, str, int]]:
    """The states of a sweep's points, each with its colour and number; nothing for a single run."""
    if len(states) > 1:
        for state, number in Counter(status.state for status in states).most_common():
            kind = "train" if state is State.COMPLETED else "bad" if state.final else "open"
            yield str(state), kind, number


def _timeline(job: Job, states: Sequence[JobStatus]) -> Iterator[Run]:
    """Queue, preparation and training of each run, from the job's state.json; a running one ends now."""
    now = time.time()
    runs = list(zip(job.run_directories(), states, strict=False))
    for number, (run, status) in enumerate(runs[:_RUNS]):
        record = run_state(run) or {}
        began, ended = record.get("started"), record.get("ended")
        spans = []
        if job.submitted and not record.get("restarts"):
            # min: the clock of the node may be behind that of the submission.
            spans.append(Span(kind="queue", begin=min(job.submitted, began or now), end=began or now))
        if began is not None:
            launched = record.get("launched") or began
            end = ended or (now if not status.state.final else launched)
            bad = status.state.final and status.state is not State.COMPLETED
            spans.append(Span(kind="prepare", begin=began, end=launched))
            spans.append(Span(kind="bad" if bad else "train", begin=launched, end=max(launched, end)))
        if spans:
            yield Run(name="job" if job.roles else str(number) if len(runs) > 1 else "", spans=spans)
    over = bool(states) and states[0].state.final
    for name in job.roles:
        yield from _role_line(name, read_json(job.role_directory(name) / ROLE_STATE) or {}, now, over=over)


def _role_line(name: str, record: Mapping[str, Any], now: float, *, over: bool) -> Iterator[Run]:
    """A role in the timeline: until it was ready, and from then on; nothing before its start."""
    began, ended, ready = (_seconds(record.get(key)) for key in ("started", "ended", "ready_after"))
    if began is None:
        return
    end = max(began, ended if ended is not None else began if over else now)
    bad = not record.get("stopped") and record.get("exit_code") not in (0, None)
    up = min(end, began + (ready or 0.0))
    yield Run(
        name=name,
        spans=[
            Span(kind="prepare", begin=began, end=up),
            Span(kind="bad" if bad else "train", begin=up, end=end),
        ],
    )


def _seconds(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _pictures(job: Job, plan: Plan) -> Iterator[tuple[str, str]]:
    """(role, placement of a node as SVG), from the job's copies of spec and site; nothing if they do not describe nodes."""
    try:
        inputs = load_spec(job.directory / "spec.yaml", site=str(job.directory / "site.yaml"))
        topology = topology_for_spec(inputs)
    except (DlrunError, KeyError, ValueError):
        return
    for role, own in _plans(plan):
        placement = own.binding.placement
        if placement is not None and topology is not None:
            with suppress(DlrunError, KeyError, ValueError):
                yield role, svg(placement, topology)


def _results(job: Job, plan: Plan) -> Section:
    try:
        results = results_of(job, plan)
    except DlrunError:
        results = []
    names = list(dict.fromkeys(name for result in results for name in result.metrics))
    parameters = list(plan.points[0].parameters) if plan.points else []
    best = {
        name: max((result.metrics[name].value for result in results if name in result.metrics), default=0.0)
        for name in names
    }

    def metric(result: Result, name: str) -> Cell:
        if name not in result.metrics:
            return ""
        value = result.metrics[name].value
        shown = f"{plain(value)} {result.metrics[name].unit}".rstrip()
        return (
            Bar(share=value / best[name], text=shown)
            if len(results) > 1 and value >= 0 < best[name]
            else shown
        )

    first = ["point"] if len(results) > 1 else []
    rows = [
        [
            *(str(number) for _ in first),
            *(result.parameters.get(name, "") for name in parameters),
            str(result.state),
            str(Duration(round(result.elapsed))) if result.elapsed is not None else "",
            *(metric(result, name) for name in names),
        ]
        for number, result in enumerate(results)
    ]
    return Section(title="Results", header=(*first, *parameters, "state", "time", *names), rows=rows)


def _data(job: Job) -> Iterator[Section]:
    """The data sets that the runs had on their nodes: by the report of the first node."""
    rows = []
    for number, run in enumerate(job.run_directories()):
        with suppress(OSError, ValueError):
            for line in read_bytes(run / "logs" / "stage-0.jsonl", _EVENTS).splitlines():
                event = json.loads(line)
                if isinstance(event, dict) and event.get("event") == "done":
                    words = [str(event.get(key, "")) for key in ("name", "how", "files", "digest")]
                    rows.append([str(number), *words, size(_whole(event.get("bytes")))])
    if rows:
        yield Section(title="Data", header=("run", "data set", "how", "files", "digest", "size"), rows=rows)


def _whole(number: object) -> int | None:
    return number if isinstance(number, int) else None


def _usage(job: Job, plan: Plan, states: Sequence[JobStatus]) -> Iterator[Section]:
    """The tables of `dlrun usage`: what was requested and used, ranks, GPUs, verdicts."""
    roles = of_roles(job, plan, states)
    runs = [run for _, run in roles] or of_points(job, plan, states)
    first = ("role",) if roles else ("point",) if len(runs) > 1 else ()
    plans = {run.role: own for own, run in roles}

    def section(
        title: str, header: tuple[str, ...], rows: Callable[[RunUse], Iterator[list[Cell]]]
    ) -> Section:
        made = [(run, list(rows(run))) for run in runs]
        most = max(1, _ROWS // max(1, len(made)))
        lines = [
            [*([run.role or str(run.point)] if first else []), *row]
            for run, own in made
            for row in own[:most]
        ]
        left = sum(max(0, len(own) - most) for _, own in made)
        note = f"the first {most} of each run; `dlrun usage` shows all" if left else ""
        return Section(title=title, header=(*first, *header), rows=lines, note=note)

    asked = section(
        "Requested and used", ("what", "share", "used"), lambda run: _asked(plans.get(run.role, plan), run)
    )
    gpus = section("GPUs", ("GPU", "node", "ranks", "busy", "over time", "memory", "power", "clock"), _gpus)
    yield from (table for table in (asked,) if table.rows)
    yield section(
        "Usage",
        ("rank", "node", "cores used", "over time", "memory peak", "over time", "read", "written"),
        _ranks,
    )
    yield from (table for table in (gpus,) if table.rows)
    yield section(
        "Verdicts",
        ("verdict", "evidence", "change"),
        lambda run: ([verdict.rule, verdict.evidence, verdict.change or ""] for verdict in run.verdicts),
    )


def _asked(plan: Plan, run: RunUse) -> Iterator[list[Cell]]:
    if run.use.nodes:
        yield ["time", "", times(run)]
        if (cold := of_cold_start(run)) is not None:
            yield ["start-up", "", cold]
        for name, share, text in bars(plan, run):
            yield [name, "" if share is None else Bar(share=share, text=f"{share:.0%}"), text]


def _ranks(run: RunUse) -> Iterator[list[Cell]]:
    for rank in run.use.ranks:
        yield [
            rank.rank, rank.node, f"{rank.used:.2f} of {rank.cores}", Curve(points=rank.cpu_curve), size(rank.peak),
            Curve(points=rank.memory_curve), size(rank.read), size(rank.written),
        ]  # fmt: skip


def _gpus(run: RunUse) -> Iterator[list[Cell]]:
    for gpu in run.use.gpus:
        yield [
            str(gpu.index), gpu.node, " ".join(gpu.ranks) or "-", quantity(gpu.busy, "%"), Curve(points=gpu.busy_curve, most=100),
            f"{size(gpu.memory)} of {size(gpu.total)}", quantity(gpu.power, "W"), quantity(gpu.clock, "MHz"),
        ]  # fmt: skip


def _logs(job: Job) -> Iterator[LogEnd]:
    logs = [log for run in job.log_directories() for log in log_files.find(run, "first")]
    for log in logs[:_LOGS]:
        end = _tail(log.path, str(log.path.relative_to(job.directory)))
        if end.text.strip():
            yield end


def _tail(path: Path, name: str) -> LogEnd:
    """The end of a log as text without control characters."""
    try:
        with open_regular(path) as stream:
            start = stream.seek(max(0, stream.seek(0, 2) - _TAIL))
            data = stream.read()
    except OSError:
        return LogEnd(name=name, text="", before=0)
    if start:
        whole = data.partition(b"\n")[2]
        start, data = start + len(data) - len(whole), whole
    text = data.decode("utf-8", errors="replace")
    shown = _without_secrets("".join(c for c in text if c.isprintable() or c in "\n\t"))
    return LogEnd(name=name, text=shown, before=start)


def _without_secrets(text: str) -> str:
    """Mask tokens and the values of names such as `HF_TOKEN=`: a report is made to be sent to others."""
    # The text as a whole first: a private key has many lines.
    return "\n".join(map(masked, without_secrets(text).split("\n")))
