"""Measure the placements that the model rates as equal on this machine, and select the best."""

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
from typing import Any

import psutil

from dlrun.affinity import load as affinity_load
from dlrun.affinity.bind import end_all, start_all
from dlrun.affinity.settings import BindingContext
from dlrun.errors import OperationFailed
from dlrun.model.placement import Placement
from dlrun.model.topology import Topology
from dlrun.plan.affinity.candidates import Candidate, Score, winner
from dlrun.plan.affinity.place import place
from dlrun.system.paths import runnable_meanwhile

SECONDS = 1.5
"""Seconds of timed steps of the built-in load; fewer after a slow start."""

PROBE = 4.5
"""Seconds after the start of a run of the built-in load when its steps end, so that a run takes at most 5 s."""

ROUNDS = 3
"""Runs per candidate; each round runs all candidates, so that a drift of the machine affects all alike."""

LONGEST = 60.0
"""Time limit of one run in seconds."""

BUSY = 0.10
"""Fraction of CPU time used by other work above which no winner is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Scores in the order of the candidates, the one to keep with the reason, and the fraction of other work."""

    scores: tuple[Score, ...]
    keep: Score
    because: str
    load: str
    busy: float


def measure(
    topology: Topology,
    compared: Sequence[Candidate],
    job: BindingContext,
    command: Sequence[str] = (),
    *,
    notice: Callable[[str], None] = lambda _: None,
) -> Measurement:
    """Run all candidates `ROUNDS` times, with `command`, timed to its end, or the built-in load.

    Raises OperationFailed if a run fails or takes longer than `LONGEST`.
    """
    runs: list[list[float]] = [[] for _ in compared]
    placements = [place(topology, candidate.request) for candidate in compared]
    load, busy = "your command", 0.0
    for number in range(ROUNDS):
        busy = max(busy, busy_fraction())
        for i, (candidate, placement) in enumerate(zip(compared, placements, strict=True)):
            if command:
                rate = _timed(placement, job, command)
            else:
                reports = _stepped(placement, job)
                load, rate = str(reports[0]["load"]), sum(float(report["rate"]) for report in reports)
            runs[i].append(rate)
            notice(f"round {number + 1} of {ROUNDS}, {candidate.label}: {rate:.4g} a second")
    scores = tuple(Score(candidate=c, runs=tuple(r)) for c, r in zip(compared, runs, strict=True))
    best = winner(scores)
    # Other work disturbs candidates by chance: a winner would be the least disturbed one.
    if busy > BUSY:
        because = f"the machine was busy ({100 * busy:.0f} % of its CPUs with other work): no winner is named"
        return Measurement(scores=scores, keep=scores[0], because=because, load=load, busy=busy)
    if best is scores[0]:
        because = "no alternative is better by more than 3 % and by more than the spread of the runs: the computed answer stays"
    else:
        gain = 100 * (best.best / scores[0].best - 1)
        because = f"{best.candidate.label} is {gain:.0f} % better than the computed answer"
    return Measurement(scores=scores, keep=best, because=because, load=load, busy=busy)


def _stepped(placement: Placement, job: BindingContext) -> list[dict[str, Any]]:
    """What each rank reports of the built-in load: its name, and samples/s."""
    with runnable_meanwhile(Path(affinity_load.__file__)) as program:
        words = [python(), str(program), str(SECONDS), str(time.monotonic() + PROBE)]
        processes = start_all(placement, job, words, capture=True)
        try:
            return [json.loads(process.communicate(timeout=LONGEST)[0]) for process in processes]
        except (subprocess.TimeoutExpired, ValueError):
            raise OperationFailed(
                "a rank of the built-in load did not report; its message is above"
            ) from None
        finally:
            end_all(processes)


def _timed(placement: Placement, job: BindingContext, command: Sequence[str]) -> float:
    """Runs of the command as all ranks per second."""
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
    """The Python interpreter of the active environment (venv, conda), else dlrun's own."""
    active = os.environ.get("VIRTUAL_ENV") or os.environ.get("CONDA_PREFIX")
    return (shutil.which("python3") if active else None) or sys.executable


def busy_fraction() -> float:
    """The fraction of the machine's CPU time in use, measured for 0.3 s."""
    return psutil.cpu_percent(interval=0.3) / 100
