"""Measures the placements that the model rates equal, on this machine, and selects the one to keep."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from dlrun.effects.affinity import load as affinity_load
from dlrun.effects.affinity.bind import end_all, start_all
from dlrun.effects.paths import runnable
from dlrun.errors import OperationFailed
from dlrun.model.placement import Placement
from dlrun.model.topology import Topology
from dlrun.plan.affinity.candidates import Candidate, Score, winner
from dlrun.plan.affinity.place import place
from dlrun.render.affinity.settings import BindingContext

SECONDS = 1.5
"""How long the built-in load steps, once it has started; less if the start took long."""

PROBE = 4.5
"""Seconds after its start by which a run of the built-in load stops stepping, so that each is done within five."""

ROUNDS = 3
"""Runs of each candidate; all candidates take their turn before the next round."""

LONGEST = 60.0
"""Seconds that one run may take before it is given up."""

BUSY = 0.10
"""Part of the CPUs' time that others may use before no winner is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Scores in the order of the candidates, which one to keep and why, and how busy the machine was."""

    scores: tuple[Score, ...]
    keep: Score
    because: str
    load: str
    busy: float


def measure(
    topology: Topology,
    found: Sequence[Candidate],
    job: BindingContext,
    command: Sequence[str] = (),
    *,
    tell: Callable[[str], None] = lambda _: None,
) -> Measurement:
    """Run every candidate three times, in turn; `command` instead of the built-in load if it is given.

    A command is timed to its end. Raises OperationFailed if a run fails or takes too long.
    """
    runs: list[list[float]] = [[] for _ in found]
    placements = [place(topology, candidate.request) for candidate in found]
    load, busy = "your command", 0.0
    for number in range(ROUNDS):
        busy = max(busy, busy_part())
        for i, (candidate, placement) in enumerate(zip(found, placements, strict=True)):
            if command:
                rate = _timed(placement, job, command)
            else:
                load, rate = _stepped(placement, job)
            runs[i].append(rate)
            tell(f"round {number + 1} of {ROUNDS}, {candidate.label}: {rate:.4g} a second")
    scores = tuple(Score(candidate=c, runs=tuple(r)) for c, r in zip(found, runs, strict=True))
    best = winner(scores)
    if busy > BUSY:
        because = f"the machine was busy ({100 * busy:.0f} % of its CPUs with other work): no winner is named"
        return Measurement(scores=scores, keep=scores[0], because=because, load=load, busy=busy)
    if best is scores[0]:
        because = "no alternative is better by more than 3 % and by more than the spread of the runs: the computed answer stays"
    else:
        lead = 100 * (best.best / scores[0].best - 1)
        because = f"{best.candidate.label} is {lead:.0f} % better than the computed answer"
    return Measurement(scores=scores, keep=best, because=because, load=load, busy=busy)


def _stepped(placement: Placement, job: BindingContext) -> tuple[str, float]:
    """Samples a second of all ranks together, under the built-in load."""
    program = [
        python(),
        str(runnable(Path(affinity_load.__file__))),
        str(SECONDS),
        str(time.monotonic() + PROBE),
    ]
    processes = start_all(placement, job, program, capture=True)
    try:
        reports = [json.loads(process.communicate(timeout=LONGEST)[0]) for process in processes]
    except (subprocess.TimeoutExpired, ValueError):
        raise OperationFailed("a rank of the built-in load did not report; its message is above") from None
    finally:
        end_all(processes)
    return str(reports[0]["load"]), sum(float(report["rate"]) for report in reports)


def _timed(placement: Placement, job: BindingContext, command: Sequence[str]) -> float:
    """One over the seconds that the command takes as all ranks."""
    start = time.perf_counter()
    processes = start_all(placement, job, command, capture=True)
    try:
        for process in processes:
            process.communicate(timeout=LONGEST)
            if process.returncode:
                raise OperationFailed(f"the command ended with exit code {process.returncode}")
    except subprocess.TimeoutExpired:
        raise OperationFailed(
            f"the command takes longer than {LONGEST:.0f} s", help="measure with fewer steps of it"
        ) from None
    finally:
        end_all(processes)
    return 1 / (time.perf_counter() - start)


def python() -> str:
    """The Python that training would use: that of the active environment, else the one that runs dlrun."""
    active = os.environ.get("VIRTUAL_ENV") or os.environ.get("CONDA_PREFIX")
    return (shutil.which("python3") if active else None) or sys.executable


def busy_part() -> float:
    """The fraction of CPU time that other work used in a third of a second."""
    return psutil.cpu_percent(interval=0.3) / 100
