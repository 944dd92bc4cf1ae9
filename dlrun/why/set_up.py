"""The earlier error that a later one follows from: a module that was not loaded, a driver of which a library only warned.

A shell continues after `module load` or `mkdir`, so the error stands at the head of a log, or in that of the job's script, and
what is missing shows minutes later: a library, a command, a module of Python, a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from dlrun.why.known.causes import CAUSES
from dlrun.why.known.form import Evidence
from dlrun.why.matching import Table
from dlrun.why.verdict import plain

_PATH = re.compile(r"['\u2018`\"]([^'\u2019`\"\s]+)['\u2019`\"]|(?<!\S)(/[^\s:'\"]+)")
"""A path as programs write it in a message: within quotes, or absolute."""


def failed(evidence: Evidence, heads: Iterable[tuple[str, Iterable[str]]], table: Table) -> Evidence | None:
    """The first error of set-up that may have led to the evidence; None without one.

    heads: name and first lines of each log in which set-up may have failed.
    """
    known = CAUSES.get(evidence.pattern.cause)
    if known is None or not (known.roots or known.roots_of_path):
        return None
    missing = _paths(evidence.line)
    for name, lines in heads:
        for line in map(plain, lines):
            if name == evidence.log and line.strip() == evidence.line:
                break
            match = table.at_any_level(line.rstrip())
            if match is not None and (
                match.pattern.cause in known.roots
                or (match.pattern.cause in known.roots_of_path and _above(_paths(line), missing))
            ):
                what = match.pattern.meaning(match.values)
                means = f"{what}; later: {evidence.pattern.meaning(evidence.values)}"
                pattern = replace(match.pattern, means=means, named=None)
                return Evidence(log=name, line=line.strip(), pattern=pattern, values=match.values)
    return None


def _paths(line: str) -> list[str]:
    return [quoted or absolute for quoted, absolute in _PATH.findall(line)]


def _above(directories: Iterable[str], paths: Iterable[str]) -> bool:
    """Whether one of the paths is one of the others, or lies below it."""
    return any(path == above or path.startswith(f"{above}/") for above in directories for path in paths)
