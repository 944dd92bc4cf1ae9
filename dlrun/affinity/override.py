"""The result of a measurement as keys of a spec or as an override of a site profile."""

from __future__ import annotations

from collections.abc import Mapping

from dlrun.config.wording import yaml_text
from dlrun.model.placement import PlacementRequest

Changes = Mapping[str, Mapping[str, str]]
"""Section of the spec (`placement`, `resources`) -> key -> value."""


def changes(computed: PlacementRequest, kept: PlacementRequest) -> dict[str, dict[str, str]]:
    """The keys of a spec in which two requests differ, with the values of the second."""
    pairs = {
        ("resources", "ranks_per_node"): (computed.ranks_per_node, kept.ranks_per_node),
        ("placement", "comm_cores"): (computed.comm_cores, kept.comm_cores),
        ("placement", "comm_policy"): (computed.comm_policy, kept.comm_policy),
        ("placement", "smt"): (computed.smt, kept.smt),
    }
    sections: dict[str, dict[str, str]] = {}
    for (section, name), (before, after) in pairs.items():
        if before != after:
            sections.setdefault(section, {})[name] = str(after)
    return sections


def site_override(name: str, site: str, wanted: Changes, *, cite: str, date: str) -> str:
    """A profile `name` that extends `site` and has these keys as defaults of specs; `cite` is the source of the values."""
    lines = [f"name: {yaml_text(name)}", f"extends: {yaml_text(site)}", "defaults:"]
    for section, values in wanted.items():
        lines += [f"  {section}:", *(f"    {key}: {value}" for key, value in values.items())]
    lines += ["sources:", f"  - {{covers: [defaults], cite: {yaml_text(cite)}, date: {yaml_text(date)}}}"]
    return "\n".join(lines) + "\n"
