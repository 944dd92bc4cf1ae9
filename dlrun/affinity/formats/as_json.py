"""The placement as JSON, for scripts."""

from __future__ import annotations

import json

from dlrun.affinity.settings import BindingContext
from dlrun.model.placement import Placement
from dlrun.model.topology import Topology

NOTE = ""


def emit(placement: Placement, _topology: Topology, _job: BindingContext) -> str:
    """The document, with one line per rank."""
    data = placement.to_json()
    ranks = ",\n  ".join(json.dumps(rank) for rank in data.pop("ranks"))
    head = json.dumps({"version": data["version"], "node": data["node"]})[:-1]
    return f'{head},\n "ranks": [\n  {ranks}\n ],\n "warnings": {json.dumps(data["warnings"])}}}\n'
