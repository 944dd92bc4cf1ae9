"""The cause in a log of any program: the output file of a batch script, or what a program printed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import BinaryIO

from dlrun.why import set_up
from dlrun.why.evidence import HEAD, TAIL, last_of
from dlrun.why.matching import Table
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


def read_end(stream: BinaryIO) -> str:
    """The end of a log, of which no more is searched."""
    if stream.seekable():
        stream.seek(max(0, stream.seek(0, os.SEEK_END) - TAIL))
    content = b""
    while piece := stream.read(TAIL):
        content = (content + piece)[-TAIL:]
    return content.decode("utf-8", "replace")


def explain(log: str, text: str) -> LogCause:
    """The cause in the text of a log of this name."""
    lines = text.splitlines()
    table = Table()
    last = last_of(lines)
    found = verdict(lines, table, log)
    if found is None:
        means = "it has no known error message" if last else "it is empty"
        step = "see what was printed before its last lines, and the logs of other processes"
        return LogCause(log=log, cause="unknown", means=means, next=step, last=last)
    found = set_up.failed(found, [(log, lines[:HEAD])], table) or found
    pattern = found.pattern

    def filled(text: str) -> str:
        return text.replace("{rank}", "all").replace("{log}", log)

    return LogCause(
        log=log,
        cause=pattern.cause,
        means=pattern.meaning(found.values),
        next=filled(pattern.way_out(found.values)),
        check=filled(pattern.check) if pattern.check else None,
        line=found.line,
        last=last,
    )
