"""What each MPI needs so that its ranks find one another under a launcher: `data/process-managers.csv`.

An MPI without the process manager that it was built for starts as a world of one rank, without an error. The rows were found by
starting Open MPI 4 and 5, MPICH 5 and Intel MPI 2021 under each launcher (`tests/cluster/test_alone.py`).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from dlrun import resources
from dlrun.model.record import record

MPI = frozenset({"mpi-program", "intel-mpi", "oneccl"})
"""Libraries of a framework whose ranks find one another by MPI."""
NAMES = {"openmpi": "Open MPI", "intel-mpi": "Intel MPI", "mpich": "MPICH"}
_MODULES = (
    ("openmpi", r"(?:^|/)open-?mpi(?:\W|$)"),
    ("intel-mpi", r"(?:^|/)(?:impi|intel-?mpi|intel-oneapi-mpi)(?:\W|$)"),
    ("mpich", r"(?:^|/)mpich(?:\W|$)"),
)
"""(MPI, regular expression of the names of its environment modules)."""


@record(frozen=True, slots=True, kw_only=True)
class Need:
    """What an MPI needs under a launcher.

    `options` are the values of `launcher.mpi` with which its ranks find one another; empty: with none. `variable` does the same.
    """

    mpi: str
    launcher: str
    options: tuple[str, ...]
    variable: str
    way: str
    source: str


@cache
def _needs() -> tuple[Need, ...]:
    text = resources.text(Path(__file__).parent / "data" / "process-managers.csv")
    return tuple(
        Need(
            mpi=row["mpi"],
            launcher=row["launcher"],
            options=tuple(row["option"].split()),
            variable=row["variable"],
            way=row["way"],
            source=row["source"],
        )
        for row in csv.DictReader(text.splitlines())
    )


def needs(launcher: str) -> tuple[Need, ...]:
    """What each MPI needs under a launcher; one that is left out finds its ranks, or it is not known whether it does."""
    return tuple(need for need in _needs() if need.launcher == launcher)


def mpi_of(libraries: Iterable[str], modules: Iterable[str]) -> str | None:
    """The MPI of a job by its libraries, else by the names of its environment modules; None: unknown."""
    named = [name for name in libraries if name in NAMES]
    by_module = [
        mpi for module in modules for mpi, form in _MODULES if re.search(form, module, re.IGNORECASE)
    ]
    return next(iter((*named, *by_module)), None)
