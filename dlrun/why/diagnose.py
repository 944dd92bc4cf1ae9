"""`dlrun why`: the cause of a job's end, from the scheduler's state, the first failed process, and its log."""

from __future__ import annotations

import re
import shlex
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from dlrun.jobs.logs import files as log_files
from dlrun.jobs.queue import status as queue_status
from dlrun.jobs.records import outcome
from dlrun.jobs.records.jobs import Job
from dlrun.jobs.records.validation import run_state
from dlrun.model.cpuset import format_list
from dlrun.model.job import BY_SIGNAL, UNMET, UNNAMED, JobStatus, State, role_directory
from dlrun.model.json_codec import from_plain
from dlrun.model.site import FailurePattern
from dlrun.system.transport.protocol import TransportFailed
from dlrun.why import advice, dependencies, endings, evidence as why_evidence, open_jobs, queues, stacks
from dlrun.why.context import lost_node, slow_links
from dlrun.why.evidence import Failures, ProcessEnd
from dlrun.why.known.form import Evidence, Pattern
from dlrun.why.patterns import (
    ASKED,
    BY_NOTE,
    BY_STATE,
    BY_WHOM,
    COMMAND_MISSING,
    DEPENDENCY,
    LAUNCHER_MISSING,
    REPORTED,
    SIGNALS,
    WELL,
    is_general,
)

_CANCELLED = (State.PENDING, State.CANCELLED, State.CANCELLED_BY_ADMIN, State.LOST)
"""States in which a job may have been prevented from starting by a dependency."""

_UNTIL_RECORDED = (1.0, 2.0)
"""Seconds between queries for who cancelled a job: only accounting knows, and later than the queue."""

_LOST_OTHERS = re.compile(r"[Cc]onnection|[Bb]roken ?[Pp]ipe|EOFError|\bpeer\b|[Tt]imed? ?out")
"""Exceptions that may be caused by the loss of another process."""

_NO_PROGRAM = ("file-missing", "command-missing")
_NOT_RUN = (126, 127)
"""Exit codes of a shell for a program that could not be run (POSIX, 2.8.2)."""

_TERMINATED = 128 + signal.SIGTERM
"""Exit code of a process ended by SIGTERM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The cause of a run's end: `cause` is a short name for programs, `means`, `check` and `next` are texts for users."""

    run: int | None
    state: str
    exit_code: int | None
    restarts: int | None
    cause: str
    means: str
    next: str
    first: ProcessEnd | None = None
    later: tuple[ProcessEnd, ...] = ()
    check: str | None = None
    log: str | None = None
    line: str | None = None
    last_log: str | None = None
    last: tuple[str, ...] = ()
    role: str | None = None


def explain(
    job: Job, tasks: Sequence[int] | None = None, *, unasked: Callable[[str], None] | None = None
) -> list[Cause]:
    """The causes of all failed runs of a job (tasks: of these points); without failed ones, that of the first run.

    unasked: called with a message if the scheduler does not answer; the job's own files are used then. Without it
    OperationFailed is raised.
    """
    statuses = _statuses(job, unasked)
    runs = [
        (status, path)
        for status, path in zip(statuses, job.run_directories(), strict=False)
        if tasks is None or status.task in tasks
    ]
    places = evidence_of(job, [path for status, path in runs if _searched(status)], unasked)
    shared = dependencies.Shared(job)
    answers = [answer(job, status, path, places.get(path), shared) for status, path in runs]
    bad = [a for a in answers if a.cause not in ("none", "open")]
    return bad or answers[:1]


def _statuses(job: Job, unasked: Callable[[str], None] | None) -> list[JobStatus]:
    """The status of each run; repeated for runs cancelled by others, until accounting knows by whom."""
    statuses = queue_status.of([job], unasked=unasked)[job.directory]
    for pause in _UNTIL_RECORDED:
        known = outcome.read(job) is not None or outcome.cancelled_here(job)
        if known or all(status.state is not State.CANCELLED for status in statuses):
            break
        time.sleep(pause)
        statuses = queue_status.of([job], unasked=unasked)[job.directory]
    return statuses


def evidence_of(
    job: Job, runs: Sequence[Path], unasked: Callable[[str], None] | None = None
) -> Mapping[Path, Path]:
    """Run -> directory with copies of its notes and logs, for a job on a login node; empty for others."""
    if job.remote is None or not runs:
        return {}
    from dlrun.why import remote_evidence

    try:
        return remote_evidence.fetch(job, job.remote, runs)
    except TransportFailed as error:
        if unasked is None:
            raise
        unasked(f"the logs on `{job.remote.host}` could not be read: {error}")
        return {}


def _searched(status: JobStatus) -> bool:
    """Whether notes and logs of a run are searched for the cause."""
    return (status.state.final and status.state is not State.COMPLETED) or status.state is State.UNKNOWN


def answer(
    job: Job,
    status: JobStatus,
    run: Path,
    copy: Path | None = None,
    shared: dependencies.Shared | None = None,
) -> Cause:
    """The cause of one run's end; copy: directory with its notes and logs, if not its own; shared: what other runs have read."""
    shared = shared or dependencies.Shared(job)
    plan = shared.plan
    own, run = run, copy or run
    record = run_state(run) or {}
    role = endings.first_role(job, record)
    within = f"{role_directory(role)}/" if role is not None else ""  # its own job has the notes and the logs
    run = run / within
    restarts = record.get("restarts", status.restarts)
    if (
        status.state is State.FAILED
        and record.get("exit_code") == _TERMINATED
        and _used_its_walltime(plan, record)
    ):
        # PBS reports such a run as failed with the exit code of SIGTERM.
        status = replace(status, state=State.TIMED_OUT)
    ended_badly = status.state.final and status.state is not State.COMPLETED
    begun = record.get("started") if restarts else None
    failures = why_evidence.search(run, _own(plan), begun) if _searched(status) else Failures()
    cause, means, step, evidence = _cause(job, status, run, failures, record)
    rules = queues.rules(job, plan) if cause in queues.DEPENDENT else None
    means += queues.limit(cause, job, plan, rules)
    step = lost_node.way_out(job, status, cause, advice.fitted(cause, step, plan, restarts, rules), plan)
    means, step = why_evidence.with_cache_message(run, cause, means, step)
    if status.state in _CANCELLED and not record and (unmet := shared.unmet) is not None:
        cause, means, step = DEPENDENCY
        means = f"{means}: {unmet}"
    first = failures.first
    rank = str(first.rank) if first else "all"
    log = within + log_files.name_of(run, first.role, first.rank) if first else "the logs"
    if ended_badly:
        means += (slow_links.slow_network(plan, run) if cause != "fabric" else "") + endings.without_results(
            run, plan
        )
    means += slow_links.slow_nodes(run)
    means += f" ({shared.changes})" if shared.changes else ""
    whole = shlex.quote(job.directory.name)
    name = whole if status.task is None else f"{whole}:{status.task}"
    of_role = "" if role is None else f" --role {role}"

    def filled(text: str) -> str:
        return (
            re.sub(r"\bJOB\b", lambda _: name, text.replace("dlrun logs JOB", f"dlrun logs JOB{of_role}"))
            .replace("{whole}", whole)
            .replace("{rank}", rank)
            .replace("{log}", log)
            .replace("{stacks}", job.shown_path(own / "stacks"))
        )

    checked = evidence.pattern.check if evidence else None
    return Cause(
        run=status.task,
        state=str(status.state),
        exit_code=status.exit_code,
        restarts=restarts,
        cause=cause,
        means=means,
        next=filled(step),
        check=filled(checked) if checked else None,
        first=first,
        later=failures.later,
        log=within + evidence.log if evidence else None,
        line=evidence.line if evidence else None,
        last_log=within + failures.log if ended_badly and failures.log else None,
        last=failures.last if ended_badly else (),
        role=role,
    )


def _used_its_walltime(plan: Mapping[str, Any], record: Mapping[str, object]) -> bool:
    """Whether a run lasted its walltime: PBS then signals its processes, and ranks may end before the script."""
    walltime = (plan.get("request") or {}).get("walltime")
    started, ended = record.get("started"), record.get("ended")
    if not isinstance(started, int | float) or not isinstance(ended, int | float):
        return False
    return isinstance(walltime, int) and ended - started >= walltime


class _Answer(NamedTuple):
    """A cause, its meaning, the next step, and the line of a log that shows it."""

    cause: str
    means: str
    step: str
    evidence: Evidence | None = None


def _cause(
    job: Job, status: JobStatus, run: Path, findings: Failures, record: Mapping[str, object]
) -> _Answer:
    if status.reason == UNMET:
        return _Answer(*DEPENDENCY)
    if status.state is State.UNKNOWN and findings.first is None:
        means = f"it is not known whether it has ended: {status.reason}"
        return _Answer("open", means, "`dlrun logs JOB` shows its logs")
    if not status.state.final and status.state is not State.UNKNOWN:
        return _Answer(*open_jobs.explained(job, status, run))
    if status.state is State.COMPLETED:
        return _Answer(*WELL)
    first, evidence = findings.first, findings.evidence
    recorded = record.get("reason") if record.get("state") == "ended" else None
    for reason in (first.reason if first else None, recorded):
        if (noted := _noted(str(reason or ""))) is not None:
            return _Answer(*noted, stacks.evidence(run) if noted[0] == "hang" else None)
    # The job's own note is more precise than the scheduler's state, so it comes before this.
    if (ending := endings.recorded(job, status)) is not None:
        return _Answer(*ending)
    if status.state in BY_STATE:
        cause, means, step = BY_STATE[status.state]
        if status.state is State.NODE_FAILED and status.reason:  # also where only a shell was killed
            means = lost_node.meaning(job, status)
        if status.reason == UNNAMED or (status.reason == BY_SIGNAL and recorded in (None, ASKED[0])):
            means = BY_WHOM[status.reason]
        return _Answer(cause, means, step, evidence if evidence and evidence.pattern.cause == cause else None)
    if first and first.reason == "out of memory":
        return _Answer(*BY_STATE[State.OUT_OF_MEMORY])
    # What ranks log after the job was asked to end follows from that, and from the end of the other ranks.
    vague = not evidence or evidence.pattern.consequence or is_general(evidence.pattern)
    if recorded == ASKED[0] and not first and vague:
        return _Answer(*ASKED[1:])
    # What ends with the script says no more than that it was ended: Slurm calls the step cancelled or failed, as it happens.
    ended_along = first is None or (first.code == _TERMINATED and not first.reason)
    little = evidence and (evidence.pattern.consequence or evidence.pattern.cause == REPORTED.cause)
    if ended_along and little and _script_killed(status, record):
        evidence = None
    # With these exit codes the shell's `No such file or directory` is about the program, not a file that it reads.
    if evidence and first and first.code in _NOT_RUN and evidence.pattern.cause == "file-missing":
        evidence = replace(evidence, pattern=COMMAND_MISSING)
    if first and not first.reason and (early := _left_early(first, findings)) is not None:
        return _Answer(*early, evidence)
    if (
        evidence
        and not first
        and record.get("exit_code") in _NOT_RUN
        and evidence.pattern.cause in _NO_PROGRAM
    ):
        evidence = replace(evidence, pattern=LAUNCHER_MISSING)
    if evidence:
        pattern = evidence.pattern
        means, step = pattern.meaning(evidence.values), pattern.way_out(evidence.values)
        return _Answer(pattern.cause, *_who_is_missing(findings, means, step), evidence)
    return _Answer(*_by_code(status, run, first))


def _script_killed(status: JobStatus, record: Mapping[str, object]) -> bool:
    """Whether the job script was ended by SIGKILL: the scheduler reports it, and the script did not record an end."""
    code = 128 + status.signal if status.signal is not None else status.exit_code
    return record.get("state") != "ended" and code == 128 + signal.SIGKILL


def _left_early(first: ProcessEnd, findings: Failures) -> tuple[str, str, str] | None:
    """(cause, meaning, next step) if ranks ended with exit code 0 while the first failed one still needed them."""
    evidence = findings.evidence
    if not findings.early or evidence is None or not _LOST_OTHERS.search(evidence.line):
        return None
    if not is_general(evidence.pattern) and not evidence.pattern.consequence:
        return None
    ranks = format_list(sorted({end.rank for end in findings.early}))
    means = f"{first.role} {ranks} ended with exit code 0 while the others still needed it"
    step = f"give every {first.role} the same number of steps; see how that one ended: `dlrun logs JOB --rank {ranks}`"
    return "left-early", means, step


def _by_code(status: JobStatus, run: Path, first: ProcessEnd | None) -> tuple[str, str, str]:
    """(cause, meaning, next step) without evidence in logs: from the exit code or the job script's last message."""
    code = first.code if first else status.exit_code
    # The script itself was killed, and its ranks were terminated with it.
    if status.signal is not None and code in (None, _TERMINATED):
        code = 128 + status.signal
    if code in SIGNALS:
        return SIGNALS[code]
    if first is None and (message := why_evidence.last_own_message(run)) is not None:
        return "job-script", f"the job ended before a rank failed: {message}", "`dlrun logs JOB --rank job`"
    if first is not None:
        what = (
            f"{first.role} {first.rank} ended with exit code {code}, and its log has no known error message"
        )
        return "unknown", what, "`dlrun logs JOB --rank {rank}`"
    what = (
        f"it ended with exit code {code}"
        if code is not None
        else f"it failed ({status.reason})"
        if status.reason
        else "it failed"
    )
    return "unknown", f"{what}, and no log has a known error message", "`dlrun logs JOB --rank all`"


def _who_is_missing(findings: Failures, means: str, step: str) -> tuple[str, str]:
    """Add the ranks without a failure to `means`, if all failed ones only lost peers: one of them may have ended too early."""
    evidence, silent = findings.evidence, findings.silent
    if not (evidence and evidence.pattern.consequence and findings.first and silent):
        return means, step
    if len(silent) > 1 + len(findings.later):
        return means, step
    ranks = format_list(sorted({log.rank for log in silent}))
    return (
        f"{means}; no failure is known of rank {ranks}, which may have ended too early",
        f"see how that ended: `dlrun logs JOB --rank {ranks}`",
    )


def _noted(reason: str) -> tuple[str, str, str] | None:
    """(cause, meaning, next step) of a job's note `REASON: detail`; None for others."""
    name, _, detail = reason.partition(": ")
    if name not in BY_NOTE:
        return None
    cause, means, step = BY_NOTE[name]
    return cause, means.replace("{1}", detail), step


def _own(plan: Mapping[str, Any]) -> list[Pattern]:
    """The site's failure patterns, from the plan."""
    known = plan.get("failures") or {}
    try:
        patterns = {name: from_plain(FailurePattern, it) for name, it in known.items()}
    except (ValueError, AttributeError):  # the plan was edited
        return []
    return [
        Pattern(cause=name, regex=it.pattern, means=it.means, next=it.next, consequence=it.consequence)
        for name, it in patterns.items()
    ]


def first_failure(job: Job, run: Path) -> ProcessEnd | None:
    """The first failed process of a run, not counting consequences of another failure."""
    plan = dependencies.Shared(job).plan
    return why_evidence.search(evidence_of(job, [run]).get(run, run), _own(plan)).first


def clock(when: float) -> str:
    """A time (seconds since 1970) as local time of day, such as `10:03:22`."""
    return time.strftime("%H:%M:%S", time.localtime(when))
