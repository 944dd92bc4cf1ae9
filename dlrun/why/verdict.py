"""The line with the cause at the end of one log: the earliest known error of the last block of errors, else an exception."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from dlrun.jobs.logs import files as log_files
from dlrun.why.known.form import Evidence, Pattern
from dlrun.why.matching import Match, Table, is_claimed, is_harmless
from dlrun.why.patterns import EXCEPTION

_LONGEST = 2000
"""Characters of a line that are searched, half of them at its end: a line may list all keys of a model."""
_NEAR = 50
"""Lines after an exception within which a consequence belongs to it."""
_BLOCK = 200
"""Lines before an error that may belong to the same block of errors."""
_CONTROL = re.compile(
    r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[\x00-\x08\x0e-\x1f\x7f-\x9f]"
)
_CHAINED = re.compile(
    r"^\W*(?:\[\S+\]:?\s*)?(?:The above exception was the direct cause|During handling of the above)"
)
_WRAPPER = re.compile(
    r"ChildFailedError|Engine core initialization failed|CalledProcessError|SignalException|RayTaskError|SystemExit"
)
_ABOUT_AN_ERROR = re.compile(
    r"^\W*$|^(?:\[\S+\]:?)?\s|(?i:error|fail|fatal|abort|exception|traceback|caught|killed|signal|unable|cannot|could not)"
)
"""Lines within a block of errors: empty, indented, or about an error."""
_WEIGHT = {
    **dict.fromkeys(("container-image", "step-cancelled"), 1),
    **dict.fromkeys(
        (
            "cancelled",
            "container",
            "launcher",
            "library-setting",
            "mpi-daemon",
            "mpi-init",
            "rendezvous",
            "scheduler",
        ),
        2,
    ),
    **dict.fromkeys(
        ("collective-timeout", "communication", "mpi-abort", "peer-lost", "rendezvous-closed"), 3
    ),
    **dict.fromkeys(("mpi-ended", "terminated"), 4),
}
"""Cause that is a consequence -> how far it is from the cause; others 1 (a process that was killed or crashed)."""
_RAISED = re.compile(EXCEPTION.regex)


def grade(pattern: Pattern) -> int:
    """0 for a cause, 1 for an unknown exception, 2 and more for a consequence: a killed process, a lost peer, a summary."""
    if pattern.consequence:
        return 1 + _WEIGHT.get(pattern.cause, 1)
    return int(pattern is EXCEPTION)


def verdict(lines: Sequence[str], table: Table, log: log_files.Log) -> Evidence | None:
    """The cause at the end of one log: a known error, else an exception, else a consequence; None without any.

    The last block of errors counts, since a program continues after earlier ones; in it the earliest, since later ones follow
    from it; of consequences the earliest with the least grade. `passing` errors count only in an exception or if none follows.
    """
    exception: Evidence | None = None
    consequence: Evidence | None = None
    after = distance = 0
    chained = False
    # From the end: the first match is the last message, and mostly few lines are read.
    before = iter(map(plain, reversed(lines)))
    for line in before:
        distance += 1
        if _CHAINED.match(line):
            chained = True
            continue
        error = _RAISED.match(line)
        match = table.match(line)
        if match and match.pattern.consequence:
            found = _evidence(log, line, match)
            if consequence is None or (
                distance - after <= _NEAR and grade(found.pattern) <= grade(consequence.pattern)
            ):
                consequence, after = found, distance
        elif match and (
            not match.pattern.passing or exception is None or (error and chained) or line.endswith("raised:")
        ):
            return _earliest(before, table, log) or _evidence(log, line, match)
        elif error and exception is None and not match and not _WRAPPER.search(error[0]):
            if consequence is not None and distance - after > _NEAR:
                return consequence
            exception = _evidence(log, line, Match(EXCEPTION, _values(error)))
        if error:
            chained = False
    return exception or consequence


def _earliest(before: Iterable[str], table: Table, log: log_files.Log) -> Evidence | None:
    """The earliest cause among the lines before an error (backwards) that belong to the same block; None without one."""
    found: Evidence | None = None
    for number, line in enumerate(before):
        match = table.match(line)
        if match and not match.pattern.consequence and not match.pattern.passing:
            found = _evidence(log, line, match)
        elif not (match or _ABOUT_AN_ERROR.search(line) or is_harmless(line) or is_claimed(line)):
            break
        if number > _BLOCK:
            break
    return found


def _evidence(log: log_files.Log, line: str, match: Match) -> Evidence:
    return Evidence(log=log.name, line=line.strip(), pattern=match.pattern, values=match.values)


def _values(match: re.Match[str]) -> tuple[str, ...]:
    return tuple(v.strip() for v in match.groups() if v and v.strip())


def plain(line: str) -> str:
    """A line without control characters, cut in the middle beyond `_LONGEST` characters."""
    if len(line) > _LONGEST:
        line = line[: _LONGEST // 2] + line[-_LONGEST // 2 :]
    return _CONTROL.sub("", line)
