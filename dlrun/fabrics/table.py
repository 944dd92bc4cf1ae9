"""The tables of fabric settings, `data/*.csv` beside this module, with one setting per line.

They are read once, in about 1 ms. CSV, because a changed setting is then one line of a diff. `names.csv` describes each variable.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias, cast

from dlrun import resources
from dlrun.model.record import record

Class: TypeAlias = Literal["safe", "tunable", "harmful", "deprecated"]
Act: TypeAlias = Literal["", "set", "default", "dlrun", "asks", "warn", "refuse"]

TABLES = ("nccl", "libfabric", "mpi", "frameworks")
_DATA = Path(__file__).parent / "data"


@record(frozen=True, slots=True, kw_only=True)
class Rule:
    """One setting of one library on some fabrics.

    `name` may be a pattern (`RDMAV_*`). `value` is the value to set (`{interfaces}` stands for the site's interfaces) or a
    description. `act` is what dlrun does: `set` it; nothing, because the value is the library's `default`; nothing here, because
    another part of `dlrun` sets it; `asks`: if site or user set this value, set the whole `unit`; `warn` about it or `refuse` it.
    `versions` are bounds of the library's version (`>=2.17 <2.24`), `when` further conditions. The settings of a `unit` are set
    together or not at all. `pattern` is a regular expression of the values concerned (empty: all), `instead` the replacement.
    """

    fabrics: tuple[str, ...]
    library: str
    name: str
    value: str
    cls: Class
    act: Act
    versions: str
    when: tuple[str, ...]
    unit: str
    pattern: str
    instead: str
    because: str
    source: tuple[str, ...]

    def named(self, name: str) -> bool:
        """True if the rule applies to a variable of this name."""
        return self.name == name or ("*" in self.name and fnmatchcase(name, self.name))

    @property
    def cited(self) -> str:
        """The addresses of its sources, joined by `; `."""
        return "; ".join(sources()[code] for code in self.source)


@cache
def rules() -> tuple[Rule, ...]:
    """All rules, in the order of the tables."""
    return tuple(rule for table in TABLES for rule in _rules(table))


def rules_for(name: str) -> tuple[Rule, ...]:
    """The rules for a variable."""
    return tuple(rule for rule in rules() if rule.named(name))


@cache
def descriptions() -> dict[str, str]:
    """Variable or pattern -> short description; complete for all names of the rules."""
    return {row["name"]: row["does"] for row in _rows("names")}


@cache
def sources() -> dict[str, str]:
    """Code of a source -> address: repository:path@commit, or URL."""
    return {row["code"]: row["address"] for row in _rows("sources")}


@cache
def dates() -> dict[str, str]:
    """Code of a source -> its date (YYYY-MM): of the cited commit, or of reading a page; empty where it is not known."""
    return {row["code"]: row["date"] for row in _rows("sources")}


@cache
def left_out() -> tuple[tuple[str, str], ...]:
    """(setting, reason) of settings that were reviewed and left out of the tables."""
    return tuple((row["setting"], row["why"]) for row in _rows("left-out"))


def _rules(table: str) -> Iterator[Rule]:
    for row in _rows(table):
        yield Rule(
            fabrics=tuple(row["fabric"].split("|")),
            library=row["library"],
            name=row["name"],
            value=row["value"],
            cls=cast("Class", row["class"]),
            act=cast("Act", row["act"]),
            versions=row["versions"],
            when=tuple(row["when"].split()),
            unit=row["unit"],
            pattern=row["pattern"],
            instead=row["instead"],
            because=row["because"],
            source=tuple(row["source"].split()),
        )


def _rows(table: str) -> Iterator[dict[str, str]]:
    yield from csv.DictReader(resources.text(_DATA / f"{table}.csv").splitlines(keepends=True))
