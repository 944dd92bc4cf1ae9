"""The golden machines: well-known nodes in short form, with the answers that sources agree on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlrun.config.topology.short import build
from dlrun.model.cpuset import parse_list
from dlrun.model.placement import PlacementRequest
from dlrun.model.topology import Topology
from dlrun.model.topology_short import ShortGpus, ShortMemory, ShortNic, ShortTopology

FOLDER = Path(__file__).parents[2] / "golden" / "machines"


@dataclass(frozen=True)
class Case:
    """One job on one machine: the ranks expected, or the refusal."""

    id: str
    topology: Topology
    request: PlacementRequest
    ranks: list[dict[str, Any]]
    error: str | None


def short_form(data: dict[str, Any]) -> ShortTopology:
    """A short form from plain JSON, as the YAML decoder would fill it."""
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}
    if "gpus" in data:
        gpus = {k: tuple(v) if isinstance(v, list) else v for k, v in data["gpus"].items()}
        fields["gpus"] = ShortGpus(**gpus)
    fields["nics"] = tuple(ShortNic(**nic) for nic in data.get("nics", ()))
    fields["memory_only"] = tuple(
        ShortMemory(node=m["node"], kind=m["kind"], near=tuple(m["near"]))
        for m in data.get("memory_only", ())
    )
    return ShortTopology(**fields)


def topology(machine: str) -> Topology:
    """The topology of a golden machine, by file name."""
    return build(short_form(json.loads((FOLDER / f"{machine}.json").read_text())["topology"]))


def cases() -> list[Case]:
    """Every case of every machine."""
    found = []
    for path in sorted(FOLDER.glob("*.json")):
        data = json.loads(path.read_text())
        node = topology(path.stem)
        for case in data["cases"]:
            ranks = [
                rank | {"cores": list(parse_list(rank["cores"])), "mask": list(parse_list(rank["mask"]))}
                for rank in case.get("ranks", ())
            ]
            request = PlacementRequest(**case["request"])
            found.append(Case(case["id"], node, request, ranks, case.get("error")))
    return found
