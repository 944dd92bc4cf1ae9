"""Find the first failed process and the line with the cause, from a run's failure notes and the ends of its logs.

A process that only lost its peers is not the first, even with the earliest note: it ends within milliseconds, while the
failed one still runs Python's cleanup.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dlrun.effects.diagnosis import own_patterns
from dlrun.effects.diagnosis.patterns import EXCEPTION, PATTERNS, Evidence, Pattern
from dlrun.effects.logs import files as log_files
from dlrun.effects.paths import open_regular, read_bytes
from dlrun.effects.records.validation import run_state
from dlrun.model.text import digits

TAIL = 256 * 1024
"""Bytes read at the end of the job's log, and of the logs of the first failed processes."""
SHORT = 32 * 1024
"""Bytes of other logs: dozens of them take a second."""
FULL = 4
"""Number of processes with `TAIL` bytes of log."""
_LONGEST = 2000
"""Characters of a line that are searched, half of them at its end: a line may list all keys of a model."""
_NOTE = 1 << 16
"""Maximum bytes of a failure note."""
MOST = 64
"""Maximum number of logs searched: a job may have thousands."""
_WRONG = -2_000_000_000
"""Nanoseconds from launch to start of a process below which its node's clock is wrong (as in lib/failures.sh)."""
_NEAR = 50
"""Lines after an exception within which a consequence belongs to it."""
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
_CONTROL = re.compile(
    r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[\x00-\x08\x0e-\x1f\x7f-\x9f]"
)
_CHAINED = re.compile(
    r"^\W*(?:\[\S+\]:?\s*)?(?:The above exception was the direct cause|During handling of the above)"
)
_WRAPPER = re.compile(r"ChildFailedError|CalledProcessError|SignalException")


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

    early: processes that ended with exit code 0 before the first failure.
    """

    first: ProcessEnd | None = None
    later: tuple[ProcessEnd, ...] = ()
    evidence: Evidence | None = None
    silent: tuple[log_files.Log, ...] = ()
    early: tuple[ProcessEnd, ...] = ()


def notes(run: Path, place: str = "failures") -> list[ProcessEnd]:
    """The notes of failed processes, the earliest first; job.sh has corrected the times of wrong clocks.

    place: `ended` for the notes of processes that ended with exit code 0.
    """
    found: list[tuple[int, ProcessEnd]] = []
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
            found.append((int(when), note))
    return [note for _, note in sorted(found, key=lambda one: (one[0], one[1].role, one[1].rank))]


def search(run: Path, own: Sequence[Pattern] = (), since: float | None = None) -> Failures:
    """Find the first failure and its cause; the site's `own` patterns take precedence.

    since: start of the last run (seconds since 1970) of a restarted job; older logs are of earlier runs.
    """
    failed = notes(run)
    least = since - _SKEW if since is not None else 0.0
    every = {(log.role, log.rank): log for log in log_files.find(run, "all") if _last_written(log) >= least}
    known = (*own, *own_patterns.patterns(), *PATTERNS, *own_patterns.patterns(general=True))
    # A stable sort: the order of the tables is kept, the site's patterns first, but consequences come last.
    patterns = sorted(known, key=lambda pattern: pattern.consequence)
    first, evidence = (failed[0] if failed else None), None
    for number, note in enumerate(failed[:MOST]):
        log = every.get((note.role, note.rank))
        found = _verdict(log, TAIL if number < FULL else SHORT, patterns) if log else None
        # Earlier notes may be of processes that only lost a peer: the first with a cause of its own counts.
        if note.reason or found is None or not found.pattern.consequence:
            first, evidence = note, found
            break
        evidence = evidence or found
    noted = {(note.role, note.rank) for note in failed}
    rest = sorted((log for key, log in every.items() if key not in noted), key=_last_written)
    if evidence is None or evidence.pattern.consequence:
        evidence = _elsewhere(rest, patterns, first) or evidence
    return Failures(
        first=first,
        later=tuple(note for note in failed if note is not first),
        evidence=evidence,
        silent=tuple(log for log in rest if log.role is not None),
        early=_ended_before(run, first, rest) if first is not None and _may_follow(evidence) else (),
    )


def _may_follow(evidence: Evidence | None) -> bool:
    """Whether the evidence may be a consequence of another process's end."""
    return evidence is not None and (evidence.pattern.consequence or evidence.pattern is EXCEPTION)


def _ended_before(run: Path, first: ProcessEnd, rest: Iterable[log_files.Log]) -> tuple[ProcessEnd, ...]:
    """The processes of the same role that ended with exit code 0 before the first failure: from their notes, or in a job of
    more than 1,000 ranks from the last lines of `rest`, the logs of processes without a note."""
    spread = {log.path: log.writers for log in rest if digits(log.path.parent.name)}
    ended = [
        *notes(run, "ended"),
        *(one for path, writers in spread.items() for one in _ends(path, writers, first)),
    ]
    known = {one.rank: one for one in ended if one.role == first.role and one.time < first.time}
    return tuple(known[rank] for rank in sorted(known))


def _ends(path: Path, writers: int, first: ProcessEnd) -> Iterable[ProcessEnd]:
    """The processes that ended with exit code 0 by the end of a log; none if one process wrote it long after the failure."""
    with suppress(OSError), open_regular(path) as stream:
        found = os.fstat(stream.fileno())
        if writers > 1 or found.st_mtime <= first.time + _FLUSHED:
            stream.seek(max(0, found.st_size - _LAST * writers))
            for role, rank, host, late, when in _ENDED.findall(stream.read().decode("utf-8", "replace")):
                ahead = int(late) if int(late) < _WRONG else 0
                yield ProcessEnd(time=(int(when) - ahead) / 1e9, role=role, rank=int(rank), host=host, code=0)


def _elsewhere(
    rest: Iterable[log_files.Log], patterns: Sequence[Pattern], first: ProcessEnd | None
) -> Evidence | None:
    """The cause in the logs of processes without a note (in the order of their last lines) and of the job's script.

    After a noted failure, `passing` messages of other processes do not count.
    """
    ordered = sorted(rest, key=lambda log: log.role is None)
    chosen = ((log, SHORT if log.role else TAIL) for log in (*ordered[:MOST], *ordered[MOST:][-1:]))
    found = [_verdict(log, most, patterns) for log, most in chosen]
    known = [one for one in found if one is not None and not (first and one.pattern.passing)]
    best = min(known, key=lambda one: _grade(one.pattern), default=None)
    return None if best is None or (first and _grade(best.pattern)) else best


def _verdict(log: log_files.Log, most: int, patterns: Sequence[Pattern]) -> Evidence | None:
    """The cause in a log: the reason of dlrun's script for ending the process, else the program's last lines."""
    own = own_evidence(log)
    found = (
        own if own is not None and not own.pattern.consequence else verdict(tail(log, most), patterns, log)
    )
    return found or own


def _grade(pattern: Pattern) -> int:
    """0 for a cause, 1 for an unknown exception, 2 for a consequence."""
    return 2 if pattern.consequence else int(pattern is EXCEPTION)


def verdict(lines: Sequence[str], patterns: Sequence[Pattern], log: log_files.Log) -> Evidence | None:
    """The cause at the end of one log: a known pattern, else an exception, else a consequence; None without any.

    The last match counts, since warnings come before the end. `passing` patterns count only in an exception or if none
    follows. `patterns` must have consequences last.
    """
    compiled = [(re.compile(pattern.regex), pattern) for pattern in patterns]
    raised = re.compile(EXCEPTION.regex)
    exception: Evidence | None = None
    consequence: Evidence | None = None
    after = distance = 0
    chained = False
    # From the end: the first match is the last message, and mostly few lines are read.
    for line in map(plain, reversed(lines)):
        distance += 1
        if _CHAINED.match(line):
            chained = True
            continue
        error = raised.match(line)
        match, pattern = next(
            ((found, pattern) for regex, pattern in compiled if (found := regex.search(line))),
            (None, EXCEPTION),
        )
        if match and pattern.consequence:
            if consequence is None:
                consequence, after = _evidence(log, line, pattern, match), distance
        elif match and (not pattern.passing or exception is None or (error and chained)):
            return _evidence(log, line, pattern, match)
        elif error and exception is None and not _WRAPPER.search(error[0]):
            if consequence is not None and distance - after > _NEAR:
                return consequence
            exception = _evidence(log, line, EXCEPTION, error)
        if error:
            chained = False
    return exception or consequence


def _evidence(log: log_files.Log, line: str, pattern: Pattern, match: re.Match[str]) -> Evidence:
    values = tuple(v.strip() for v in match.groups() if v and v.strip())
    return Evidence(log=log.name, line=line.strip(), pattern=pattern, values=values)


def plain(line: str) -> str:
    """A line without control characters, cut in the middle beyond `_LONGEST` characters."""
    if len(line) > _LONGEST:
        line = line[: _LONGEST // 2] + line[-_LONGEST // 2 :]
    return _CONTROL.sub("", line)


def tail(log: log_files.Log, most: int) -> list[str]:
    """The lines in the last `most` bytes of a log's last run, without dlrun's own, which repeat those of ranks."""
    lines = log_files.last_run(log, most, run_number(log)).splitlines()
    return [line for line in lines if not line.startswith(("dlrun: ", "  | "))]


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
