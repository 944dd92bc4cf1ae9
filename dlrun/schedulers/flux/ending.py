"""Who ended a job, from its event log (`flux job eventlog`; RFC 18 and 21, seen with 0.88).

`flux jobs` has an exception's type and note, but not the user who raised it. Signals (`flux job kill`) leave no record.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

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


LOOK = """\
flux job eventlog --format=json "$1" || exit
echo
flux kvs get admin.eventlog 2>/dev/null || :"""
"""Code of bash that prints the event log of a job, an empty line, and that of the instance, which only its owner may read."""

_SOON = 60.0
"""Seconds in which an instance that shuts down, and has cancelled what runs, waits for the ends and leaves."""


class _Event(NamedTuple):
    """A line of an event log; `when`: seconds since 1970."""

    when: float
    name: str
    context: Mapping[str, Any]


def parse_ending(stdout: str) -> Ending | None:
    """The first fatal exception that a user raised; None if there is none."""
    of_job, _, of_instance = stdout.partition("\n\n")
    owner: object = None
    for event in map(_event, of_job.splitlines()):
        context = event.context
        if event.name == "submit":
            owner = context.get("userid")
        if event.name != "exception" or context.get("severity") != 0 or context.get("type") in _OWN:
            continue
        by, kind, note = (context.get(key) for key in ("userid", "type", "note"))
        return Ending(
            by_owner=by is None or by == owner,
            who=None if by is None else f"uid {by}",
            how="cancelled" if kind == "cancel" else f"ended by an exception of type `{kind}`",
            note=str(note) if note else _shutdown(event.when, of_instance) if kind == "cancel" else None,
        )
    return None


def _shutdown(when: float, of_instance: str) -> str | None:
    """That the instance shut down soon after a cancellation, by its event log; None if it did not.

    `flux shutdown` cancels all that runs, as the instance's owner, without a note.
    """
    for event in map(_event, of_instance.splitlines()):
        if event.name == "finish" and when <= event.when <= when + _SOON:
            return f"its instance of Flux shut down {event.when - when:.0f} s later, which cancels every job that runs there"
    return None


def _event(line: str) -> _Event:
    """The event of a line; zero and empty for other lines."""
    with suppress(ValueError):
        event = json.loads(line)
        if isinstance(event, dict):
            when, context = event.get("timestamp"), event.get("context")
            when = when if isinstance(when, float) else 0.0
            return _Event(when, str(event.get("name")), context if isinstance(context, dict) else {})
    return _Event(0.0, "", {})
