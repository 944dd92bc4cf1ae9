"""The cause in a log of any program: the output file of a batch script, or what a program printed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import BinaryIO

from dlrun.why import set_up
from dlrun.why.context import whole
from dlrun.why.context.grades import grade
from dlrun.why.evidence import HEAD, TAIL, last_of
from dlrun.why.known.form import Evidence
from dlrun.why.matching import Table, is_claimed
from dlrun.why.verdict import verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCause:
    """What a log says of its program's end; `line` is the evidence: without it `cause` is `unknown`."""

    log: str
    cause: str
    means: str
    next: str
    check: str | None = None
    line: str | None = None
    last: tuple[str, ...] = ()


def of_stream(log: str, stream: BinaryIO) -> LogCause:
    """The cause in a log of this name: at its end, or above what follows from a failure there."""
    lines = _end(stream).splitlines()
    table = Table()
    last = last_of(lines)
    evidence = verdict(lines, table, log)
    if grade(evidence) > 1 and stream.seekable() and stream.seek(0, os.SEEK_END) > TAIL:
        every = whole.lines(stream, is_claimed, lambda line: line, lambda _: False)
        above = verdict(every, table, log)
        if grade(above) < grade(evidence):
            lines, evidence = every, above
    return _explained(log, lines, evidence, last, table)


def _end(stream: BinaryIO) -> str:
    """The end of a log; of one that cannot be read again no more is searched."""
    if stream.seekable():
        stream.seek(max(0, stream.seek(0, os.SEEK_END) - TAIL))
    content = b""
    while piece := stream.read(TAIL):
        content = (content + piece)[-TAIL:]
    return content.decode("utf-8", "replace")


def _explained(
    log: str, lines: list[str], evidence: Evidence | None, last: tuple[str, ...], table: Table
) -> LogCause:
    if evidence is None:
        means = "it has no known error message" if last else "it is empty"
        step = "see what was printed before its last lines, and the logs of other processes"
        return LogCause(log=log, cause="unknown", means=means, next=step, last=last)
    evidence = set_up.failed(evidence, [(log, lines[:HEAD])], table) or evidence
    pattern = evidence.pattern

    def filled(text: str) -> str:
        return text.replace("{rank}", "all").replace("{log}", log)

    return LogCause(
        log=log,
        cause=pattern.cause,
        means=pattern.meaning(evidence.values),
        next=filled(pattern.way_out(evidence.values)),
        check=filled(pattern.check) if pattern.check else None,
        line=evidence.line,
        last=last,
    )
