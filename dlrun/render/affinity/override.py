"""What a measurement found, written into a spec or as an override of a site profile."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dlrun.config.wording import yaml_text
from dlrun.errors import Invalid
from dlrun.model.placement import PlacementRequest

Changes = Mapping[str, Mapping[str, str]]
"""Values by section of the spec (`placement`, `resources`) and key."""


def changes(computed: PlacementRequest, kept: PlacementRequest) -> dict[str, dict[str, str]]:
    """The keys of a spec in which two requests differ, with the values of the second."""
    pairs = {
        ("resources", "ranks_per_node"): (computed.ranks_per_node, kept.ranks_per_node),
        ("placement", "comm_cores"): (computed.comm_cores, kept.comm_cores),
        ("placement", "comm_policy"): (computed.comm_policy, kept.comm_policy),
        ("placement", "smt"): (computed.smt, kept.smt),
    }
    found: dict[str, dict[str, str]] = {}
    for (section, name), (before, after) in pairs.items():
        if before != after:
            found.setdefault(section, {})[name] = str(after)
    return found


def into_spec(text: str, wanted: Changes) -> str:
    """A spec's text with these keys set and everything else, comments too, as it was.

    Raises Invalid for a section written in braces, which is not edited line by line.
    """
    lines = text.splitlines()
    for section, values in wanted.items():
        start = next((i for i, line in enumerate(lines) if re.match(rf"{section}\s*:", line)), None)
        if start is None:
            lines += [f"{section}:", *(f"  {name}: {value}" for name, value in values.items())]
            continue
        if not re.fullmatch(rf"{section}\s*:\s*(#.*)?", lines[start]):
            raise Invalid(
                f"`{section}` is written on one line, which dlrun does not edit",
                help=f"set {', '.join(f'{name}: {value}' for name, value in values.items())} there by hand",
            )
        for name, value in values.items():
            _set(lines, start, name, value)
    return "\n".join(lines) + "\n"


def _set(lines: list[str], start: int, name: str, value: str) -> None:
    """Set a key in the block that follows line `start`."""
    indent = ""
    for i in range(start + 1, len(lines)):
        if not lines[i].strip() or lines[i].lstrip().startswith("#"):
            continue
        found = re.match(r"\s*", lines[i])
        margin = found[0] if found else ""
        if not margin:
            break
        indent = indent or margin
        match = re.fullmatch(rf"({indent}{name}\s*:\s*)([^#]*?)(\s+#.*)?", lines[i])
        if match:
            lines[i] = f"{match[1].rstrip()} {value}{match[3] or ''}"
            return
    lines.insert(start + 1, f"{indent or '  '}{name}: {value}")


def site_override(name: str, site: str, wanted: Changes, *, cite: str, date: str) -> str:
    """A profile called `name` that extends a site and sets these keys as defaults of every spec; `cite` says who
    found them."""
    lines = [f"name: {yaml_text(name)}", f"extends: {yaml_text(site)}", "defaults:"]
    for section, values in wanted.items():
        lines += [f"  {section}:", *(f"    {key}: {value}" for key, value in values.items())]
    lines += ["sources:", f"  - {{covers: [defaults], cite: {yaml_text(cite)}, date: {yaml_text(date)}}}"]
    return "\n".join(lines) + "\n"
