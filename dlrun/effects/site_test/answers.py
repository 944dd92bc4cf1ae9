"""What nodes printed in a job of `dlrun site test` (`dlrun.node.checks.check_site`)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlrun.effects.logs import files as log_files
from dlrun.effects.site.node import NodeFacts, read_facts

MARK = "dlrun-site "
FIRST = "first-node.txt"
"""What the batch script's own node printed before any module was loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAnswers:
    """The answers of one node: its facts, and the rest as it was printed."""

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
    found: dict[str, NodeAnswers] = {}
    for answers in parsed(lines):
        found.setdefault(answers.host, answers)
    return found


def parsed(lines: Iterable[str]) -> Iterable[NodeAnswers]:
    """The answers in lines of a log; what is cut off is passed over."""
    for line in lines:
        _, mark, text = line.partition(MARK)
        if not mark:
            continue
        try:
            start = text.index("{")
            data = json.loads(text[start:])
            yield NodeAnswers(facts=read_facts(json.dumps(data)), rest=data)
        except ValueError:
            continue
