"""Run trials in this process until the result is certain or the budget is spent."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import fmean

from dlrun.errors import DlrunError, OperationFailed
from dlrun.model.plan import Plan
from dlrun.model.units import plain
from dlrun.trials.tune import begin, trial
from dlrun.trials.tune.candidates import DEFAULT
from dlrun.trials.tune.race import Next, Trial, upcoming
from dlrun.trials.tune.record import Tuning

_LEAST = 20.0
"""Seconds reserved for the end of the last trial."""


def run(
    tuning: Tuning,
    notice: Callable[[str], None],
    until: float | None = None,
    polled: Callable[[], None] = lambda: None,
) -> None:
    """Run the missing trials; until: end of the allocation on `time.monotonic`; polled: called twice a second.

    Raises OperationFailed if the unchanged plan cannot be measured.
    """
    with begin.at(tuning):
        plans: dict[str, Plan] = {}
        while True:
            trials = tuning.trials()
            left = _left(tuning, until)
            mean = fmean([one.seconds for one in trials]) if trials else tuning.length
            # Without time for another comparison, the rest of the budget confirms the best candidate.
            last = left < mean * (2 * tuning.repeat + 1)
            coming = upcoming(tuning.candidates, trials, repeat=tuning.repeat)
            if coming is None:
                break
            if last:
                coming = upcoming(tuning.candidates, trials, repeat=tuning.repeat, last=True)
            if coming is None or left < mean:
                notice(
                    f"the budget of {tuning.budget:.3g} node-hours is used up before all candidates were measured: the same "
                    "command with a larger `--budget` continues"
                )
                break
            if last and coming.stage == "confirm" and not any(one.stage == "confirm" for one in trials):
                notice("the rest of the budget is used to confirm the fastest candidate so far")
            done = _one(tuning, coming, plans, left, polled)
            tuning.add(done)
            notice(described(len(trials) + 1, done))
    _check(tuning)


def _one(
    tuning: Tuning, coming: Next, plans: dict[str, Plan], left: float, polled: Callable[[], None]
) -> Trial:
    """Run a trial; a candidate that cannot be planned is a failed trial."""
    name = coming.candidate.name
    try:
        if name not in plans:
            plans[name] = begin.plan_of(coming.candidate, tuning.spec, tuning.sets, tuning.site)
    except DlrunError as error:
        return Trial(
            candidate=name,
            stage=coming.stage,
            value=None,
            unit="",
            seconds=0.0,
            directory=".",
            failed=str(error),
        )
    return trial.run(tuning, coming, plans[name], left, polled)


def _left(tuning: Tuning, until: float | None) -> float:
    """Seconds left for trials, from the budget and the allocation."""
    of_budget = 3600 * (tuning.budget - tuning.used()) / tuning.nodes
    return of_budget if until is None else min(of_budget, until - time.monotonic() - _LEAST)


def described(number: int, trial: Trial) -> str:
    """An ended trial in one line: its number, setting and throughput."""
    confirms = " (to confirm)" if trial.stage == "confirm" else ""
    result = (
        f"{plain(trial.value)} {trial.unit}".rstrip()
        if trial.value is not None
        else f"failed: {trial.failed}"
    )
    return f"{number}: {trial.candidate}{confirms}: {result}"


def _check(tuning: Tuning) -> None:
    for one in tuning.trials():
        if one.candidate == DEFAULT and one.value is None:
            raise OperationFailed(
                f"the training could not be measured as planned: {one.failed}",
                help=f"see {tuning.directory / one.directory / 'logs'}; `metrics: {{throughput: …}}` names what to read",
            )
