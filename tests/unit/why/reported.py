"""The errors that libraries publish, in files of `tests/captured/reported`: a log for each, with cause, way out and source."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests import house

PLACE = house.ROOT / "tests" / "captured" / "reported"


@dataclass(frozen=True, slots=True)
class Case:
    """A log and what is known of it: `way` is a part of the way out."""

    name: str
    writer: str
    cause: str
    way: str
    source: str
    log: str


def _of(path: Path) -> list[Case]:
    found = []
    for part in path.read_text("utf-8").split("### ")[1:]:
        head, _, log = part.partition("\n")
        name, cause, way, source = (word.strip() for word in head.split(" | "))
        found.append(Case(name, path.stem, cause, way, source, log))
    return found


CASES = [case for path in sorted(PLACE.glob("*.txt")) for case in _of(path)]
