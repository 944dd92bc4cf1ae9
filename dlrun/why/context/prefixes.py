"""What a launcher or a collector of logs puts before every line: a time, the number of the rank, the name of the node.

Without it the lines are as the program wrote them: its tracebacks are found by indentation, and ordinary output by having none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from dlrun.why.known.form import Evidence

_KINDS = tuple(
    map(
        re.compile,
        (
            r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?(?: (?!- [\w.]+ - [A-Z]+ - )|$)",
            r"[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d \d{4}(?= |\[|$)",
            r"\d\d:\d\d:\d\d(?:[.,]\d+)?(?: |$)",
            r" *\d{1,6}:(?: |$)",
            r"\[[^\]\s]{0,40}\d\](?:<std(?:err|out)>)?:?(?: |(?=\S)|$)",
            r"\[rank: \d+\](?: |$)",
            r"<\d{1,3}>(?:1 (?=\d{4}-))?",
            r" ?(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d )?[\w.-]{1,60} (?:kernel|[\w./-]{1,40}\[\d+\]):(?: |$)",
            r"[\w.-]{1,60} \S{1,40} \d+ \S+ -(?: |$)",
            r"\d{1,3},\d+,\d+,[^;\s]*;",
            r"(?:[a-z]{3,8} *:[a-z]{3,6} *: )?\[[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ [\d:]{8} \d{4}\](?: |$)",
            r"\([^()]{0,60}\bpid=\d+[^()]{0,60}\)(?: |$)",
            r"(?:std(?:err|out):|\[std(?:err|out)\]|std(?:err|out) \|)(?: |$)",
            r"(?![\w.-]*(?:Error|Exception|Warning)\b)[a-z][\w.-]{0,60}\d[\w.-]{0,60}(?::| \|)(?: |$)",
        ),
    )
)
"""Beginnings of lines: times; numbers of srun; tags of mpirun, torchrun, Hydra, Lightning, Ray, accelerate, pdsh, Docker;
what syslog, journald and the kernel put before a message (RFC 3164 and 5424, sd-daemon(3), `dmesg -T` and `-x`)."""
_PROGRESS = re.compile(r"\d%\||\bit/s\b|^\W*$")
"""A part of a progress bar, whose parts share one line of the log, and an empty line."""
_LEAST = 4
"""Lines of the same kind below which it is not of all lines."""
_MOST_OTHERS = 0.05
"""The part of the lines that may be without it: the scheduler's own."""
_DEPTH = 3


def stripped(lines: Sequence[str]) -> Sequence[str]:
    """Lines without control characters without what stands before each of them; the same lines if nothing does."""
    for _ in range(_DEPTH):
        kind = next((kind for kind in _KINDS if _before_all(kind, lines)), None)
        if kind is None:
            break
        lines = [kind.sub("", line, count=1) if kind.match(line) else line for line in lines]
    return lines


def restored(evidence: Evidence, lines: Sequence[str]) -> Evidence:
    """Evidence with its line as the log has it."""
    whole = (line.strip() for line in reversed(lines))
    return replace(
        evidence, line=next((line for line in whole if line.endswith(evidence.line)), evidence.line)
    )


def _before_all(kind: re.Pattern[str], lines: Sequence[str]) -> bool:
    """Whether lines begin in this way, apart from progress bars and a few others."""
    others = count = 0
    most = len(lines) * _MOST_OTHERS
    for line in lines:
        if kind.match(line):
            count += 1
        elif not _PROGRESS.search(line):
            others += 1
            if others > most:
                return False
    return count >= _LEAST and others <= count * _MOST_OTHERS
