"""Parse the output of `dlrun.node.checks.check_site` in jobs of `dlrun site test`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlrun.jobs.logs import files as log_files
from dlrun.site.profile.json_shape import fits
from dlrun.site.profile.node import NodeFacts, read_facts

MARK = "dlrun-site "
FIRST = "first-node.txt"
"""File with the output of the batch script's node before modules are loaded."""

_PLACE = {
    "path": str, "exists": bool, "writable": bool, "type": str, "free?": int, "size?": int, "rotational?": (bool, None),
}  # fmt: skip
_SHAPE = {
    "memory_kib?": int,
    "modules?": {str: {"loads": bool, "output": str, "available?": [str]}},
    "node_local?": (None, _PLACE),
    "shared?": {str: _PLACE},
    "names?": {str: bool},
    "gpu_devices?": (None, [int]),
}
"""The further output of a node, besides its facts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAnswers:
    """The output of one node: its facts, and the other values."""

    facts: NodeFacts
    rest: Mapping[str, Any]

    @property
    def host(self) -> str:
        """The node's own name, without its domain."""
        return self.facts.host.partition(".")[0]


def read(directory: Path) -> dict[str, NodeAnswers]:
    """The answers of each node by host name, the batch script's node first."""
    first = directory / FIRST
    lines = first.read_text(encoding="utf-8", errors="replace").splitlines() if first.exists() else []
    for log in log_files.find(directory, "all")[1:]:
        lines += [part for line in log_files.text(log) for part in line.splitlines()]
    by_host: dict[str, NodeAnswers] = {}
    for answers in parsed(lines):
        by_host.setdefault(answers.host, answers)
    return by_host


def parsed(lines: Iterable[str]) -> Iterable[NodeAnswers]:
    """The answers in lines of a log; incomplete ones are skipped."""
    for line in lines:
        _, mark, text = line.partition(MARK)
        if not mark:
            continue
        try:
            data = json.loads(text[text.index("{") :])
            if not fits(data, _SHAPE):
                continue
            yield NodeAnswers(facts=read_facts(json.dumps(data)), rest=data)
        except (ValueError, RecursionError):
            continue
