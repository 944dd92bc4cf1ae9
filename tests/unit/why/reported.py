"""The errors that libraries publish, in files of `tests/captured/reported`: a log for each, with cause, way out and source."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests import house

PLACE = house.ROOT / "tests" / "captured" / "reported"
_HEAD = re.compile(r"^### ", re.MULTILINE)
_RANK = re.compile(r"^@rank (\d+)(| first| running)\n", re.MULTILINE)
"""The log of a rank follows: of the one that failed first, or of one that still runs."""
NO_THREAD = "no public thread: as the program prints it"
"""In place of an address in `public.txt`, where no thread that has the text was found: a guessed address is a false source."""


@dataclass(frozen=True, slots=True)
class Case:
    """A log and what is known of it: `way` is a part of the way out, `line` of the line with the cause (empty: not compared)."""

    name: str
    writer: str
    cause: str
    way: str
    source: str
    log: str
    line: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """A case of several ranks: their logs, the order in which their ends are noted, and the one that failed first."""

    case: Case
    logs: dict[int, str]
    order: list[int]
    first: int


def _of(path: Path) -> list[Case]:
    found = []
    for part in _HEAD.split(path.read_text("utf-8"))[1:]:
        head, _, log = part.partition("\n")
        name, cause, way, source = (word.strip() for word in head.split(" | "))
        cause, _, line = cause.partition(" ")
        found.append(Case(name, path.stem, cause, way, source, log, line))
    return found


def _job(case: Case) -> Job:
    _, *parts = _RANK.split(case.log)
    rows = list(zip(map(int, parts[::3]), parts[1::3], parts[2::3], strict=True))
    first = next(rank for rank, mark, _ in rows if mark == " first")
    order = [rank for rank, mark, _ in rows if mark != " running"]
    return Job(case, {rank: log for rank, _, log in rows}, order, first)


_ALL = [case for path in sorted(PLACE.glob("*.txt")) for case in _of(path)]
CASES = [case for case in _ALL if not case.log.startswith("@rank")]
JOBS = [_job(case) for case in _ALL if case.log.startswith("@rank")]
