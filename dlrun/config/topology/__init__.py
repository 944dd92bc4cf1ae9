"""Readers of node topologies: from text, captured trees or numbers to `dlrun.model.topology.Topology`.

`read_topology` recognises the format and calls a reader: `lstopo` (hwloc's XML), `lscpu`, or `sysfs` (a copy of `/sys` and
`/proc`). `short` expands the short form of a profile, `shorten` finds it. `tree` is the interface of readers to files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from dlrun.model.topology import Topology


def read_topology(text: str, *, name: str = "") -> Topology:
    """The topology in a text of any supported format: its own JSON (`tune-affinity --capture`, or the facts
    that a probe of `site detect` wrote), the XML of `lstopo`, or the output of `lscpu -p`.

    Raises ValueError for another format or contradictory contents.
    """
    start = text.lstrip("\ufeff \t\r\n")[:1]
    if start == "{":
        try:
            data = json.loads(text)
            if "tree" in data:
                return _of_facts(data["tree"], name)
            return Topology.from_json(data)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a topology that `dlrun tune-affinity --capture` wrote: {error}") from None
    if start == "<":
        from dlrun.config.topology.lstopo import read_lstopo  # noqa: PLC0415 - the XML parser is rarely needed

        return read_lstopo(text, name=name)
    from dlrun.config.topology.lscpu import read_lscpu  # noqa: PLC0415

    if start == "#" or text[:1].isdecimal():
        return read_lscpu(text, name=name)
    raise ValueError("neither dlrun's JSON, nor `lstopo` XML, nor the output of `lscpu -p`")


def _of_facts(tree: Mapping[str, str], name: str) -> Topology:
    """The topology from the files of /sys and /proc that a probe copied."""
    from dlrun.config.topology.sysfs import read_sysfs  # noqa: PLC0415 - plans need this reader only here
    from dlrun.config.topology.tree import MappingTree  # noqa: PLC0415

    return read_sysfs(MappingTree(tree), name=name)
