"""The earlier error that a later one follows from: a module that was not loaded, a driver of which a library only warned.

A shell continues after `module load`, so the error stands at the head of a log, or in that of the job's script, and what is
missing shows minutes later: a library, a command, a module of Python.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dlrun.why.known.causes import CAUSES
from dlrun.why.known.form import Evidence
from dlrun.why.matching import Table
from dlrun.why.verdict import plain


def failed(evidence: Evidence, heads: Iterable[tuple[str, Iterable[str]]], table: Table) -> Evidence | None:
    """The first error of set-up that may have led to the evidence; None without one.

    heads: name and first lines of each log in which set-up may have failed.
    """
    known = CAUSES.get(evidence.pattern.cause)
    if known is None or not known.roots:
        return None
    for name, lines in heads:
        for line in map(plain, lines):
            if name == evidence.log and line.strip() == evidence.line:
                break
            match = table.at_any_level(line.rstrip())
            if match is not None and match.pattern.cause in known.roots:
                what = match.pattern.meaning(match.values)
                means = f"{what}; later: {evidence.pattern.meaning(evidence.values)}"
                pattern = replace(match.pattern, means=means, named=None)
                return Evidence(log=name, line=line.strip(), pattern=pattern, values=match.values)
    return None
