"""Find the first failed process and the line with the cause, from a run's failure notes and the ends of its logs.

A process that only lost its peers is not the first, even with the earliest note: it ends within milliseconds, while the
failed one still runs Python's cleanup.
"""

from __future__ import annotations

import itertools
import os
import re
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from dlrun.jobs.logs import files as log_files
from dlrun.jobs.records.validation import run_state
from dlrun.model.text import digits
from dlrun.system.paths import open_regular, read_bytes
from dlrun.why import own_patterns, set_up
from dlrun.why.context import steps, whole
from dlrun.why.context.grades import grade
from dlrun.why.known.form import Evidence, Pattern
from dlrun.why.matching import Table, is_claimed
from dlrun.why.passing_messages import COPYING
from dlrun.why.patterns import REPORTED, is_general
from dlrun.why.verdict import plain, verdict

_Logs = Mapping[tuple[str | None, int], log_files.Log]
"""The log of each process, by role and rank; role None: the job's."""
TAIL = 256 * 1024
"""Bytes read at the end of the job's log, and of the logs of the first failed processes."""
HEAD = 1000
"""Lines at the beginning of a log within which a job is set up."""
SHORT = 32 * 1024
"""Bytes of other logs: dozens of them take a second."""
FULL = 4
"""Number of processes with `TAIL` bytes of log."""
_NOTE = 1 << 16
"""Maximum bytes of a failure note."""
MOST = 64
"""Maximum number of logs searched: a job may have thousands."""
LAST = 3
"""Lines at the end of the first failed process's log that are shown."""
_ENDED_WITH = {128 + signal.SIGTERM: 5, 128 + signal.SIGHUP: 5}
"""Exit code of a process without a cause in its log, and how far it is from one: it may have been ended with another."""
_SILENT = 2
"""The same for a process that ended by itself and did not say why: one with an exception comes before it."""
_BY_THE_JOB = "srun: forcing job termination"
"""srun's message that it was asked to end (src/api/step_launch.c of Slurm)."""
_COPIES = tuple(f"dlrun: {message.partition('{}')[0]}" for message in COPYING)
_ENDED_BY_OTHERS = (*_ENDED_WITH, 128 + signal.SIGKILL)
"""Exit codes of processes that something else ended."""
_WRONG = -2_000_000_000
"""Nanoseconds from launch to start of a process below which its node's clock is wrong (as in lib/failures.sh)."""
_SKEW = 5.0
"""Maximum seconds by which a file server's clock may be behind a node's."""
_ENDED = re.compile(
    r"dlrun: (\S+) (\d+) on (\S+), which began (-?\d+) ns after its launch, ended with exit code 0 at (\d+) ns$",
    re.MULTILINE,
)
"""The last log line of a rank of a job with more than 1,000 ranks (templates/lib/rank.sh); others write a note."""
_LAST = 1 << 12
"""Bytes searched for that line at the end of a log, per writing process."""
_FLUSHED = 60.0
"""Seconds after a process's end by which its log was flushed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEnd:
    """A failed process: time (seconds since 1970), role, rank, host, exit code, and the job's reason, if noted."""

    time: float
    role: str
    rank: int
    host: str
    code: int
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """The first failure, later ones, the line with the cause, and the logs of ranks without a note.

    early: processes that ended with exit code 0 before the first failure; log, last: the log of the first failed process, and
    its last lines.
    """

    first: ProcessEnd | None = None
    later: tuple[ProcessEnd, ...] = ()
    evidence: Evidence | None = None
    silent: tuple[log_files.Log, ...] = ()
    early: tuple[ProcessEnd, ...] = ()
    log: str | None = None
    last: tuple[str, ...] = ()


def notes(run: Path, place: str = "failures") -> list[ProcessEnd]:
    """The notes of failed processes, the earliest first; job.sh has corrected the times of wrong clocks.

    place: `ended` for the notes of processes that ended with exit code 0.
    """
    ends: list[tuple[int, ProcessEnd]] = []
    for path in (run / place).glob("*"):
        with suppress(OSError, ValueError, OverflowError):
            line, _, late = read_bytes(path, _NOTE).decode("utf-8").partition("\n")
            when, role, rank, host, code, *reason = line.split()
            # job.sh has corrected the times of failures only.
            if place == "ended" and int(late or 0) < _WRONG:
                when = str(int(when) - int(late))
            words = " ".join(reason) or None
            note = ProcessEnd(
                time=int(when) / 1e9, role=role, rank=int(rank), host=host, code=int(code), reason=words
            )
            # Sorted by integer nanoseconds, which a float cannot represent.
            ends.append((int(when), note))
    return [note for _, note in sorted(ends, key=lambda end: (end[0], end[1].role, end[1].rank))]


def search(run: Path, own: Sequence[Pattern] = (), since: float | None = None) -> Failures:
    """Find the first failure and its cause; the site's `own` patterns take precedence.

    since: start of the last run (seconds since 1970) of a restarted job; older logs are of earlier runs.
    """
    failed = notes(run)
    least = since - _SKEW if since is not None else 0.0
    every = {(log.role, log.rank): log for log in log_files.find(run, "all") if _last_written(log) >= least}
    table = Table(own)
    first, evidence = _first(failed, every, table)
    reported = evidence is not None and evidence.pattern.cause == REPORTED.cause
    if reported and first is not None and _by_signal(first):
        evidence = None  # a signal ended it, and not what it printed before
    noted = {(note.role, note.rank) for note in failed}
    rest = sorted((log for key, log in every.items() if key not in noted), key=_last_written)
    if grade(evidence) > 1:
        evidence = _elsewhere(rest, table, first, evidence) or evidence
    if grade(evidence) > 1:
        first, evidence = _above_the_ends(failed, every, table, _Failure(first, evidence))
    # A rank's own log may only have the shell's word about it: `Killed`.
    only_ended = evidence is None or evidence.pattern.cause in ("killed", "terminated")
    if only_ended and (failed or evidence) and all(note.code in _ENDED_BY_OTHERS for note in failed):
        evidence = _cancelled_step(every.get((None, 0)), table) or evidence
    if evidence is not None:
        evidence = set_up.failed(evidence, _heads(every, evidence), table) or evidence
    shown = _log_to_show(every, rest, first, evidence)
    return Failures(
        first=first,
        later=tuple(note for note in failed if note is not first),
        evidence=evidence,
        silent=tuple(log for log in rest if log.role is not None),
        early=_ended_before(run, first, rest) if first is not None and _may_follow(evidence) else (),
        log=shown.name if shown is not None else None,
        last=_last_lines(shown) if shown is not None else (),
    )


class _Failure(NamedTuple):
    """A failed process, and the line with its cause."""

    end: ProcessEnd | None = None
    evidence: Evidence | None = None


def _first(failed: Sequence[ProcessEnd], every: _Logs, table: Table) -> _Failure:
    """The failure to begin with: the earliest that is not the consequence of another."""
    best, least = _Failure(), 0
    for number, note in enumerate(failed[:MOST]):
        log = every.get((note.role, note.rank))
        evidence = _verdict(log, TAIL if number < FULL else SHORT, table) if log else None
        # Earlier notes may be of processes that only lost a peer, or were ended with it: the first with a cause of its own
        # counts.
        worth = 0 if note.reason else grade(evidence) if evidence else _worth(note.code)
        if worth < 2:
            return _Failure(note, evidence)
        if best.end is None or worth < least:
            best, least = _Failure(note, evidence), worth
    return best


def _by_signal(end: ProcessEnd) -> bool:
    """Whether a signal ended a process, other than its own abort."""
    return 128 < end.code <= 128 + max(signal.Signals) and end.code != 128 + signal.SIGABRT


def _worth(code: int) -> int:
    """How far a process without a cause in its log is from one: a signal is a cause, an exit code of its own says nothing."""
    return _ENDED_WITH.get(code, 0 if code > 128 else _SILENT)


def _may_follow(evidence: Evidence | None) -> bool:
    """Whether the evidence may be a consequence of another process's end."""
    return evidence is not None and (evidence.pattern.consequence or is_general(evidence.pattern))


def _ended_before(run: Path, first: ProcessEnd, rest: Iterable[log_files.Log]) -> tuple[ProcessEnd, ...]:
    """The processes of the same role that ended with exit code 0 before the first failure: from their notes, or in a job of
    more than 1,000 ranks from the last lines of `rest`, the logs of processes without a note."""
    spread = {log.path: log.writers for log in rest if digits(log.path.parent.name)}
    ended = [
        *notes(run, "ended"),
        *(end for path, writers in spread.items() for end in _ends(path, writers, first)),
    ]
    known = {end.rank: end for end in ended if end.role == first.role and end.time < first.time}
    return tuple(known[rank] for rank in sorted(known))


def _ends(path: Path, writers: int, first: ProcessEnd) -> Iterable[ProcessEnd]:
    """The processes that ended with exit code 0 by the end of a log; none if one process wrote it long after the failure."""
    with suppress(OSError), open_regular(path) as stream:
        state = os.fstat(stream.fileno())
        if writers > 1 or state.st_mtime <= first.time + _FLUSHED:
            stream.seek(max(0, state.st_size - _LAST * writers))
            for role, rank, host, late, when in _ENDED.findall(stream.read().decode("utf-8", "replace")):
                ahead = int(late) if int(late) < _WRONG else 0
                yield ProcessEnd(time=(int(when) - ahead) / 1e9, role=role, rank=int(rank), host=host, code=0)


def _elsewhere(
    rest: Iterable[log_files.Log], table: Table, first: ProcessEnd | None, own: Evidence | None
) -> Evidence | None:
    """The cause in the logs of processes without a note (in the order of their last lines) and of the job's script.

    After a noted failure, whose log has `own`, `passing` messages of other processes do not count; of consequences only a lost
    node does, which is why others lost their peers or were ended.
    """
    ordered = sorted(rest, key=lambda log: log.role is None)
    chosen = ((log, SHORT if log.role else TAIL) for log in (*ordered[:MOST], *ordered[MOST:][-1:]))
    verdicts = [_verdict(log, most, table) for log, most in chosen]
    known = [
        evidence for evidence in verdicts if evidence is not None and not (first and evidence.pattern.passing)
    ]
    best = min(known, key=grade, default=None)
    if best is None or first is None or not grade(best):
        return best
    worth = grade(own) if own is not None else _worth(first.code)
    return best if best.pattern.cause == "node" and grade(best) < worth else None


def _verdict(log: log_files.Log, most: int, table: Table) -> Evidence | None:
    """The cause in a log: the reason of dlrun's script for ending the process, else the program's last lines."""
    own = own_evidence(log)
    if own is not None and not own.pattern.consequence:
        return own
    return verdict(tail(log, most), table, log.name) or own


def _above_the_ends(failed: Sequence[ProcessEnd], every: _Logs, table: Table, failure: _Failure) -> _Failure:
    """The failure, of logs that are longer than what was read of their ends; `failure` if these have none."""
    for note in (*failed[:FULL], None):
        log = every.get((note.role, note.rank) if note is not None else (None, 0))
        above = verdict(_whole(log), table, log.name) if log is not None else None
        if grade(above) < grade(failure.evidence):
            failure = _Failure(note or failure.end, above)
    return failure


def _whole(log: log_files.Log) -> list[str]:
    """The lines of a long log, of each kind the last few; none of a short one."""
    label, number = f"{log.label}:".encode() if log.writers > 1 else b"", run_number(log)

    def ours(line: bytes) -> bytes | None:
        if not line.startswith(label):
            return None
        line = line[len(label) :].removeprefix(b" ") if label else line
        return None if line.startswith((b"dlrun: ", b"  | ")) else line

    def begins(line: bytes) -> bool:
        if log.role is None:
            return line.startswith(b"dlrun: job ") and b" starts;" in line
        return number > 1 and line.endswith(f"dlrun: run {number}".encode())

    with suppress(OSError), open_regular(log.path) as stream:
        if os.fstat(stream.fileno()).st_size > SHORT:
            return whole.lines(stream, is_claimed, ours, begins)
    return []


def _cancelled_step(log: log_files.Log | None, table: Table) -> Evidence | None:
    """The scheduler's message that the ranks' step was cancelled, if all of them were ended from outside.

    srun cancels the step by itself once a task has failed: then its report of that task comes first.
    """
    if log is None:
        return None
    lines = tail(log, TAIL)
    at = next((number for number, line in enumerate(lines) if steps.STEP_CANCELLED.search(line)), len(lines))
    if any(steps.BY_SRUN.search(line) for line in lines[:at]):
        return None
    evidence = verdict(lines[: at + 1], table, log.name)
    return evidence if evidence is not None and evidence.pattern.cause == "step-cancelled" else None


def _heads(every: _Logs, evidence: Evidence) -> Iterator[tuple[str, Iterable[str]]]:
    """Name and first lines of the logs in which the set-up before an error may have failed: its own, and the job script's."""
    own = [log for log in every.values() if log.name == evidence.log and log.role is not None]
    for log in (*own, *(log for log in every.values() if log.role is None)):
        if run_number(log) > 1:  # the head of the log is of an earlier run
            yield log.name, tail(log, TAIL)
        else:
            with suppress(OSError):
                yield log.name, list(itertools.islice(log_files.text(log), HEAD))


def _log_to_show(
    every: _Logs,
    rest: Sequence[log_files.Log],
    first: ProcessEnd | None,
    evidence: Evidence | None,
) -> log_files.Log | None:
    """The log whose last lines are shown: of the process that failed first, else that with the cause, else the last written."""
    if first is not None and (found := every.get((first.role, first.rank))) is not None:
        return found
    if evidence is not None:
        return next((log for log in every.values() if log.name == evidence.log), None)
    return next((log for log in reversed(rest) if _last_lines(log)), None)


def _last_lines(log: log_files.Log) -> tuple[str, ...]:
    return last_of(tail(log, SHORT))


def last_of(lines: Iterable[str]) -> tuple[str, ...]:
    """The last lines that are not empty, without control characters."""
    shown = (plain(line).rstrip() for line in lines)
    return tuple([line for line in shown if line.strip()][-LAST:])


def tail(log: log_files.Log, most: int) -> list[str]:
    """The lines in the last `most` bytes of a log's last run, without dlrun's own, which repeat those of ranks."""
    lines = _before_copies(log, log_files.last_run(log, most, run_number(log)).splitlines())
    lines = [line for line in lines if not line.startswith(("dlrun: ", "  | "))]
    if _BY_THE_JOB in lines:
        # srun was ended by the job's script: what it then reports about the ranks follows from that.
        return lines[: lines.index(_BY_THE_JOB)]
    return lines


def _before_copies(log: log_files.Log, lines: list[str]) -> list[str]:
    """The lines of the job's log before the steps after the training, which are the cause of exit code 1 at most."""
    if log.role is not None or ((run_state(log.run) or {}).get("exit_code") or 0) <= 1:
        return lines
    return list(itertools.takewhile(lambda line: not line.startswith(_COPIES), lines))


def run_number(log: log_files.Log) -> int:
    """The number of the run that wrote the end of a log, from 1."""
    return 1 + int((run_state(log.run) or {}).get("restarts") or 0)


def last_own_message(run: Path) -> str | None:
    """The last message of the job's script that is not about progress: its reason to end, if no process failed."""
    (log,) = log_files.find(run, "job")
    messages = _own_messages(log, TAIL)
    return next((line for line in messages if not own_patterns.reports_progress(line)), None)


def _own_messages(log: log_files.Log, most: int) -> Iterator[str]:
    """The messages of dlrun's scripts at the end of a log, the last one first."""
    lines = log_files.last_run(log, most, run_number(log)).splitlines()
    return (plain(line.removeprefix("dlrun: ")) for line in reversed(lines) if line.startswith("dlrun: "))


def own_evidence(log: log_files.Log) -> Evidence | None:
    """The message with which dlrun's script ended the job or rank, as evidence; None without one."""
    for line in _own_messages(log, SHORT):
        if (known := own_patterns.pattern_of(line)) is not None:
            return Evidence(log=log.name, line=line, pattern=known, values=(line,))
    return None


def _last_written(log: log_files.Log) -> float:
    try:
        return log.path.stat().st_mtime
    except OSError:
        return 0.0


_CACHE, _MOVED = "cache-file", "`caches: auto`"
"""The cause of an error below a cache, and what its next step has for the caches of compilers, which a job moves to its nodes."""
_LOGS, _FIRST = 64, 200
"""Logs that are searched for why one was not moved, and lines of each: the message comes before the output of the program."""


def with_cache_message(run: Path, cause: str, means: str, step: str) -> tuple[str, str]:
    """Meaning and next step of a cause; of an error below a compilers' cache with the reason that a log has for it."""
    if cause != _CACHE or _MOVED not in step:
        return means, step
    for log in log_files.find(run, "all")[:_LOGS]:
        with suppress(OSError):
            for line in itertools.islice(log_files.text(log), _FIRST):
                if (stated := own_patterns.of_a_cache(line, step)) is not None:
                    return f"{means}; {stated[0]}", stated[1]
    return means, step
