"""What srun and slurmstepd print when a step ends: which task ended first, and what follows from that."""

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


def without_ends(lines: Sequence[str]) -> Sequence[str]:
    """Lines without what follows where srun ends a step after one of its tasks: others are killed, the step is cancelled."""
    at = next((number for number, line in enumerate(lines) if _TERMINATING.search(line)), len(lines))
    return [*lines[:at], *(line for line in lines[at:] if not _ENDED_ALONG.search(line))]
