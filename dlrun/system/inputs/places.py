"""Problems of paths and programs on the submitting host: their place in the spec, and the nearest name."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from dlrun.model.nearest import nearest, one_slip
from dlrun.model.origin import Origin
from dlrun.model.problem import Problem
from dlrun.system.paths import fault

_COMMON = (
    "python",
    "python3",
    "bash",
    "torchrun",
    "accelerate",
    "deepspeed",
    "lightning",
    "horovodrun",
    "julia",
    "java",
    "ray",
)
"""Programs that start trainings."""


def problem(
    code: str, message: str, key: str, origins: Mapping[str, Origin], help: str, *, warning: bool = False
) -> Problem:
    """A problem at a key of the spec, or at the mapping or list that it is in."""
    parts = key.split(".")
    places = (origins.get(".".join(parts[:length])) for length in range(len(parts), 0, -1))
    origin = next((place for place in places if place is not None), None)
    return Problem(code=code, message=message, origin=origin, help=help, warning=warning)


def visible(path: Path) -> bool:
    """Whether this host sees the file system of a path: its first directory exists."""
    parts = path.parts
    return not path.is_absolute() or len(parts) < 3 or fault(Path(*parts[:2])) is None


def near(path: Path, otherwise: str) -> str:
    """A help line with the nearest name beside a missing path."""
    try:
        names = [entry.name for entry in islice(path.parent.iterdir(), 10_000) if entry.name != path.name]
    except OSError:
        return otherwise
    close = nearest(path.name, names)
    return f"the nearest there is `{path.parent / close}`" if close else otherwise


def misspelt_program(name: str, key: str, origins: Mapping[str, Origin]) -> Iterator[Problem]:
    """A warning for a program that is not here and has almost the name of a common one."""
    if "/" in name or "{{" in name or name in _COMMON or shutil.which(name) is not None:
        return
    if (close := next((program for program in _COMMON if one_slip(name, program)), None)) is not None:
        yield problem(
            "DLR032",
            f"program `{name}` is not on this machine",
            key,
            origins,
            f"the nearest is `{close}`",
            warning=True,
        )
