"""The formats of placements, one module per tool.

A format is a module with `NOTE` (advice for users) and `emit`. Tests parse each text and compare it with the placement
(`tests/affinity_formats.py`).
"""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

from dlrun.affinity.formats import FORMATS
from dlrun.affinity.settings import BindingContext
from dlrun.errors import Invalid
from dlrun.model.placement import Placement
from dlrun.model.topology import Topology


class Format(Protocol):
    """The interface of a format module."""

    NOTE: str

    def emit(self, placement: Placement, topology: Topology, job: BindingContext, /) -> str:
        """The text, ending in a newline; raises Invalid if the tool cannot express this placement."""


def format_named(name: str) -> Format:
    """The format with a name; raises Invalid for an unknown name."""
    if name not in FORMATS:
        raise Invalid(f"no format `{name}`", help=f"formats are {', '.join(FORMATS)}")
    return cast("Format", import_module(f"dlrun.affinity.formats.as_{name}"))
