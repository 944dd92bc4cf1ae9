"""Placement of a node's ranks on its cores, memory, GPUs and NICs.

`place` is the whole of it: pure, deterministic, and indifferent to how the system numbers its CPUs.
"""

from __future__ import annotations

from dlrun.model.placement import Placement, PlacementRequest, Reserve
from dlrun.plan.affinity.place import place

__all__ = ["Placement", "PlacementRequest", "Reserve", "place"]
