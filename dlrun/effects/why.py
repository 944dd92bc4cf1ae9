"""Why a job ended: what the scheduler says, which process failed first and where, and the line that tells the cause."""

from __future__ import annotations

import itertools
import re
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dlrun.effects import logs, outcome, stacks, status
from dlrun.effects.jobs import Job, read_json
from dlrun.effects.why_patterns import BY_NOTE, BY_STATE, PATTERNS, SIGNALS, Evidence, Pattern
from dlrun.model.job import JobStatus, State
from dlrun.node import transport_lines

_TAIL = 256 * 1024
"""Bytes at the end of each log that are read."""
_HEAD = 5000
"""Lines at its beginning in which libraries say what they chose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class First:
    """The process that failed first: when (seconds since 1970), which, where, and its exit code."""

    time: float
    role: str
    rank: int
    host: str
    code: int
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Why a run ended. `cause` is a short name for programs, `means` and `next` are for people."""

    run: int | None
    state: str
    exit_code: int | None
    restarts: int | None
    cause: str
    means: str
    next: str
    first: First | None = None
    log: str | None = None
    line: str | None = None


def explain(job: Job) -> list[Answer]:
    """An answer for each run of a job that ended other than well; for a job that did not, one that says so.

    Raises OperationFailed if the scheduler does not answer.
    """
    statuses = status.of([job])[job.directory]
    answers = [answer(job, one, path) for one, path in zip(statuses, job.run_directories(), strict=False)]
    bad = [a for a in answers if a.cause not in ("none", "open")]
    return bad or answers[:1]


def answer(job: Job, one: JobStatus, run: Path) -> Answer:
    """Why one run ended."""
    first = first_failure(run)
    cause, means, step, evidence = _cause(one, run, first, _own(job))
    rank = str(first.rank) if first else "all"
    log = f"logs/{first.role}-{first.rank}.log" if first else "the logs"
    if one.state.final and one.state is not State.COMPLETED and cause != "fabric":
        means += _slow_network(job, run)
    return Answer(
        run=one.task,
        state=str(one.state),
        exit_code=one.exit_code,
        restarts=(read_json(run / outcome.STATE) or {}).get("restarts", one.restarts),
        cause=cause,
        means=means,
        next=step.replace("JOB", job.directory.name)
        .replace("{rank}", rank)
        .replace("{log}", log)
        .replace("{stacks}", str(run / "stacks")),
        first=first,
        log=evidence.log if evidence else None,
        line=evidence.line if evidence else None,
    )


def _cause(
    one: JobStatus, run: Path, first: First | None, own: Sequence[Pattern]
) -> tuple[str, str, str, Evidence | None]:
    if not one.state.final:
        waiting = f": {one.reason}" if one.reason else ""
        return "open", f"it has not ended{waiting}", "`dlrun logs JOB -f` follows it", None
    if one.state is State.COMPLETED:
        return "none", "it ended well", "nothing is to be done", None
    record = read_json(run / outcome.STATE) or {}
    for reason in (
        first.reason if first else None,
        record.get("reason") if record.get("state") == "ended" else None,
    ):
        if (noted := _noted(reason)) is not None:
            return (*noted, stacks.evidence(run) if noted[0] == "hang" else None)
    found = search(run, first, own)
    if one.state in BY_STATE:
        cause, means, step = BY_STATE[one.state]
        return cause, means, step, found if found and found.pattern.cause == cause else None
    if first and first.reason == "out of memory":
        return (*BY_STATE[State.OUT_OF_MEMORY], None)
    if found:
        what = found.values[0] if found.values else "it"
        pattern = found.pattern
        return pattern.cause, pattern.means.replace("{1}", what), pattern.next.replace("{1}", what), found
    code = first.code if first else one.exit_code
    if code is None and one.signal is not None:  # the job's script itself
        code = 128 + one.signal
    if code in SIGNALS:
        return (*SIGNALS[code], None)
    what = f"it ended with exit code {code}" if code is not None else "it failed"
    return (
        "unknown",
        f"{what}, and no log has a line that dlrun knows",
        "`dlrun logs JOB --rank {rank}`",
        None,
    )


def _noted(reason: str | None) -> tuple[str, str, str] | None:
    """What a job's own check found, from its note `CAUSE: detail`."""
    name, _, detail = (reason or "").partition(": ")
    if name not in BY_NOTE:
        return None
    cause, means, step = BY_NOTE[name]
    return cause, means.replace("{1}", detail), step


def _own(job: Job) -> list[Pattern]:
    """What the site knows of failures, as its profile was when the job was submitted."""
    known = (read_json(job.directory / "plan.json") or {}).get("failures") or {}
    return [
        Pattern(
            cause=name, regex=it["pattern"], means=it["means"], next=it["next"], consequence=it["consequence"]
        )
        for name, it in known.items()
    ]


def _slow_network(job: Job, run: Path) -> str:
    """A remark where `fabric_check` is on and a log says that a library fell back: a cause of timeouts, too."""
    check = (read_json(job.directory / "plan.json") or {}).get("fabric_check")
    if not check:
        return ""
    for log in logs.find(run, "all"):
        with suppress(OSError), log.path.open(encoding="utf-8", errors="replace") as lines:
            found = transport_lines.chosen(itertools.islice(lines, _HEAD))
            if found is not None and transport_lines.unexpected(found, check["expect"]):
                return f" ({log.label}'s {transport_lines.says(found)}, and this is {check['fabric']})"
    return ""


def first_failure(run: Path) -> First | None:
    """The earliest of the notes that failing processes left."""
    notes = []
    for path in (run / "failures").glob("*"):
        with suppress(OSError, ValueError):
            when, role, rank, host, code, *reason = path.read_text(encoding="utf-8").split()
            notes.append(
                First(time=int(when) / 1e9, role=role, rank=int(rank), host=host, code=int(code),
                      reason=" ".join(reason) or None)
            )  # fmt: skip
    return min(notes, key=lambda note: note.time, default=None)


def search(run: Path, first: First | None, own: Sequence[Pattern] = ()) -> Evidence | None:
    """The line that tells the cause: in the log of the first failure, else in any; consequences count least.

    The site's `own` patterns come before the others.
    """
    found = logs.find(run, "all")
    ordered = sorted(found, key=lambda log: (not _is(log, first), log.role is None))
    texts = [(log, _tail(log.path)) for log in ordered]
    for consequence in (False, True):
        patterns = [p for p in (*own, *PATTERNS) if p.consequence is consequence]
        for log, lines in texts:
            name = f"logs/{log.path.name}"
            if (evidence := _best(lines, patterns, name)) is not None:
                return evidence
    return None


def _best(lines: Sequence[str], patterns: Sequence[Pattern], name: str) -> Evidence | None:
    """The last line that any pattern matches, by the first pattern of the table that does: warnings come before the end."""
    compiled = [(re.compile(pattern.regex), pattern) for pattern in patterns]
    for line in reversed(lines):
        for regex, pattern in compiled:
            if match := regex.search(line):
                values = tuple(v.strip() for v in match.groups() if v and v.strip())
                return Evidence(log=name, line=line.strip(), pattern=pattern, values=values)
    return None


def _is(log: logs.Log, first: First | None) -> bool:
    return first is not None and (log.role, log.rank) == (first.role, first.rank)


def _tail(path: Path) -> list[str]:
    """The last lines of a log; of dlrun's own, none: those repeat what ranks said."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - _TAIL))
            text = stream.read().decode("utf-8", "replace")
    except OSError:
        return []
    return [line for line in text.splitlines() if not line.startswith(("dlrun: ", "  | "))]


def signal_name(code: int) -> str | None:
    """`SIGKILL` for 137: how a shell tells the signal that ended a program."""
    try:
        return signal.Signals(code - 128).name if code > 128 else None
    except ValueError:
        return None


def clock(when: float) -> str:
    """A time of day, local, as in `10:03:22`."""
    return time.strftime("%H:%M:%S", time.localtime(when))
