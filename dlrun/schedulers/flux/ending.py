"""Who ended a job, from its event log (`flux job eventlog`; RFC 18 and 21, seen with 0.88).

`flux jobs` has an exception's type and note, but not the user who raised it. Signals (`flux job kill`) leave no record.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from dlrun.model.job import Ending

_OWN = frozenset(
    {
        "alloc",
        "dependency",
        "epilog",
        "exec",
        "housekeeping",
        "node-failure",
        "prolog",
        "scheduler-restart",
        "timeout",
    }
)
"""Types of exceptions that Flux itself raises; all others are raised by users (`flux cancel`, `flux job raise`)."""


def parse_ending(stdout: str) -> Ending | None:
    """The first fatal exception that a user raised; None if there is none."""
    owner: object = None
    for name, context in map(_event, stdout.splitlines()):
        if name == "submit":
            owner = context.get("userid")
        if name != "exception" or context.get("severity") != 0 or context.get("type") in _OWN:
            continue
        by, kind, note = (context.get(key) for key in ("userid", "type", "note"))
        return Ending(
            by_owner=by is None or by == owner,
            who=None if by is None else f"uid {by}",
            how="cancelled" if kind == "cancel" else f"ended by an exception of type `{kind}`",
            note=str(note) if note else None,
        )
    return None


def _event(line: str) -> tuple[str, Mapping[str, Any]]:
    """Name and context of an event; empty for other lines."""
    with suppress(ValueError):
        event = json.loads(line)
        if isinstance(event, dict):
            context = event.get("context")
            return str(event.get("name")), context if isinstance(context, dict) else {}
    return "", {}
