"""Notes beside a cause: a library on another transport than planned, and nodes whose links staging has found slow."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from dlrun.jobs.logs import files as log_files
from dlrun.jobs.records.validation import MOST
from dlrun.model.units import Bytes
from dlrun.node.checks import transport_lines
from dlrun.system.paths import read_bytes

_STAGED = "stage-0.jsonl"
"""The staging events of the first node, in the logs directory."""

_HEAD = 5000
"""Lines at the beginning of a log that are searched for the selected transport."""


def slow_network(plan: Mapping[str, Any], run: Path) -> str:
    """A note about a library with an unexpected transport, with `fabric_check`: that can cause timeouts."""
    check = plan.get("fabric_check")
    if not check:
        return ""
    for log in log_files.find(run, "all"):
        with suppress(OSError):
            transport = transport_lines.chosen(itertools.islice(log_files.text(log), _HEAD))
            if transport is not None and transport_lines.unexpected(transport, check["expect"]):
                return f" ({log.label}'s {transport_lines.description(transport)}, but this is {check['fabric']})"
    return ""


def slow_nodes(run: Path) -> str:
    """A note about nodes that staging found slow: their links slow down the training, too."""
    slow = {}
    with suppress(OSError, ValueError, LookupError, TypeError, ArithmeticError, RecursionError):
        for line in read_bytes(run / "logs" / _STAGED, MOST).decode("utf-8").splitlines():
            event = json.loads(line)
            if event["event"] == "slow":
                rates = f"{Bytes(event['rate'])}/s, the others {Bytes(event['others'])}/s or more"
                slow[str(event["host"])] = (
                    f"the network of {event['host']} is slow: it got its data at {rates}"
                )
    return f" ({'; '.join(slow.values())})" if slow else ""
