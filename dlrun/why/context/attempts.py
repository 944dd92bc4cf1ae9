"""Attempts of a program that an elastic launcher starts again in one run: a later one may fail for what the first left."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from dlrun.why.known.form import Evidence

_RESTART = re.compile(
    r"\battempts? left; will restart worker group\b"  # torch/distributed/elastic/agent/server/api.py
    r"|\bTrial \S+ errored after \d+ iterations\b|\bAttempting to recover trial state from last checkpoint\b"  # Ray Tune
    r"|\bAttempting (?:a )?(?:training )?restart\b|\bRestarting training worker group\b|\bFailureDecision\.RETRY\b"  # Ray Train
)
"""A line after which the workers start again."""
_LEFT = frozenset(
    (
        "cache-lock",
        "file-exists",
        "file-missing",
        "port-in-use",
        "ranks",
        "rendezvous",
        "rendezvous-closed",
        "tracking",
    )
)
"""Causes by which a start fails for what an earlier one has left."""


def first_cause(
    evidence: Evidence,
    lines: Sequence[str],
    of: Callable[[Sequence[str]], Evidence | None],
    grade: Callable[[Evidence], int],
) -> Evidence:
    """What the last attempt in a log failed of; if that may follow from an earlier one, what this one failed of.

    of: the cause in lines; grade: how far evidence is from a cause.
    """
    at = max((number for number, line in enumerate(lines) if _RESTART.search(line)), default=0)
    if not at or (evidence.pattern.cause not in _LEFT and grade(evidence) < 2):
        return evidence
    earlier = of(lines[:at])
    no_cause = (*_LEFT, evidence.pattern.cause)
    if earlier is None or earlier.pattern.cause in no_cause or grade(earlier) > max(grade(evidence), 2):
        return evidence
    means = f"{earlier.pattern.meaning(earlier.values)}; at the next attempt: {evidence.pattern.meaning(evidence.values)}"
    return replace(earlier, pattern=replace(earlier.pattern, means=means, named=None))
