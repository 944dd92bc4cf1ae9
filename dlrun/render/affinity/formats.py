"""A placement in the words of each tool that can apply it, and back again.

A format is a module with `NOTE` (what to know when using it), `SAYS` (the fields of a rank that its text
carries), `emit` and `parse`; `parse(emit(placement))` gives those fields unchanged.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol, TypeAlias, cast

from dlrun.errors import Invalid
from dlrun.model.placement import Placement
from dlrun.model.topology import Topology
from dlrun.render.affinity.settings import Job

RankView: TypeAlias = dict[str, Any]
"""Some fields of a `RankPlacement`, by name."""


class Format(Protocol):
    """What a module of this package must have to be a format."""

    NOTE: str
    SAYS: tuple[str, ...]

    def emit(self, placement: Placement, topology: Topology, job: Job, /) -> str:
        """The text, ending in a newline; raises Invalid if the tool cannot say this placement."""

    def parse(self, text: str, topology: Topology, /) -> tuple[RankView, ...]:
        """What the text says of each rank, in order; raises ValueError for text of another kind."""


FORMATS = ("env", "wrapper", "srun", "openmpi", "rankfile", "intelmpi", "hydra", "numactl", "json")
"""Names of the formats, as `tune-affinity --format` takes them; each is a module `as_NAME`."""


def find(name: str) -> Format:
    """The format of a name; raises Invalid if there is none."""
    if name not in FORMATS:
        raise Invalid(f"no format `{name}`", help=f"formats are {', '.join(FORMATS)}")
    return cast("Format", import_module(f"dlrun.render.affinity.as_{name}"))


def view(placement: Placement, fields: tuple[str, ...]) -> tuple[RankView, ...]:
    """These fields of every rank, as `parse` returns them."""
    return tuple({field: getattr(rank, field) for field in fields} for rank in placement.ranks)
