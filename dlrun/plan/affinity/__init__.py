"""Placement of a node's ranks on its cores, memory, GPUs and NICs.

`place` is its interface: pure, deterministic and independent of the operating system's CPU numbering.
"""

from dlrun.model.placement import Placement, PlacementRequest, Reserve
from dlrun.plan.affinity.place import place

__all__ = ["Placement", "PlacementRequest", "Reserve", "place"]
