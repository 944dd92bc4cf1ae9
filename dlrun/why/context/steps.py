"""What srun, slurmstepd and Hydra print when a step ends: which task ended first, and what follows from that."""

from __future__ import annotations

import re
from collections.abc import Sequence

STEP_CANCELLED = re.compile(r"\*\*\* STEP \S+ ON \S+ CANCELLED AT ")
_TERMINATING = re.compile(r"^srun: .*\bTerminating (?:StepId|job step)")
"""That srun ends a step."""
BY_SRUN = re.compile(rf"^srun: error: \S+: tasks? \S+: |{_TERMINATING.pattern}")
"""How srun reports an ended task, and that it therefore ends the step (src/api/step_launch.c, src/plugins/launch/slurm)."""
_ENDED_ALONG = re.compile(
    rf"{STEP_CANCELLED.pattern}|^srun: error: \S+: tasks? [\d,-]+: (?:Killed|Terminated)"
)
"""What follows from that."""
_ENDED_BY_HYDRA = re.compile(r"\bBAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES")
_OF_HYDRA = re.compile(r"^\W*(?:\[\S+\]:? ?)?\[(?:proxy|mpiexec)[:@][^\]]*\] ")
"""Hydra's report of an ended process, and the lines of its own programs, which lose one another after it."""


def without_ends(lines: Sequence[str]) -> Sequence[str]:
    """Lines without what follows where srun ends a step after one of its tasks (others are killed, the step is cancelled), and
    where Hydra does (its daemons lose one another)."""
    by_hydra = next((n for n, line in enumerate(lines) if _ENDED_BY_HYDRA.search(line)), len(lines))
    lines = [*lines[:by_hydra], *(line for line in lines[by_hydra:] if not _OF_HYDRA.match(line))]
    at = next((number for number, line in enumerate(lines) if _TERMINATING.search(line)), len(lines))
    return [*lines[:at], *(line for line in lines[at:] if not _ENDED_ALONG.search(line))]
