"""Run trials in this process until the result is certain or the budget is spent."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from dlrun.errors import DlrunError, OperationFailed
from dlrun.jobs.code import programs
from dlrun.jobs.hubs import store
from dlrun.jobs.queue.results import metrics
from dlrun.jobs.records import directories, jobs
from dlrun.jobs.records.validation import run_state
from dlrun.jobs.submission.files import files
from dlrun.model.plan import Plan
from dlrun.model.text import digits
from dlrun.model.units import plain
from dlrun.node.coordinator import LOST
from dlrun.node.supervise import end_with
from dlrun.plan.metrics.log import Reading
from dlrun.plan.metrics.spec import THROUGHPUT
from dlrun.render.written_names import written_names
from dlrun.system.writing import append_to
from dlrun.trials.tune import begin
from dlrun.trials.tune.candidates import DEFAULT
from dlrun.trials.tune.race import Next, Trial, upcoming
from dlrun.trials.tune.record import Tuning, directory_name

_LEAST = 20.0
"""Seconds reserved for the end of the last trial."""


def run(
    tuning: Tuning,
    notice: Callable[[str], None],
    until: float | None = None,
    polled: Callable[[], None] = lambda: None,
) -> None:
    """Run the missing trials; until: end of the allocation on `time.monotonic`; polled: called twice a second.

    All processes of trials have ended when this returns or raises (KeyboardInterrupt). Raises OperationFailed if the unchanged
    plan cannot be measured, or no place is left.
    """
    plans: dict[str, Plan] = {}
    running: list[RunningTrial] = []
    places = list(tuning.places)
    with begin.at(tuning):
        try:
            while True:
                over = False
                for place in [free for free in places if free not in {run.coming.place for run in running}]:
                    left = _left(tuning, running, until)
                    coming, over = _coming(tuning, running, place, left, notice)
                    if over:
                        break
                    if coming is None:
                        continue
                    begun = _begun(tuning, coming, plans, left)
                    if isinstance(begun, Trial):
                        _add(tuning, begun, notice)
                    else:
                        running.append(begun)
                if not running:
                    if over:
                        break
                    continue
                with suppress(subprocess.TimeoutExpired):
                    running[0].process.wait(_POLL)
                polled()
                for trial in list(running):
                    done = trial.look()
                    if done is None:
                        continue
                    running.remove(trial)
                    if trial.is_lost():
                        places.remove(trial.coming.place)
                        which = "the node" if tuning.wide == 1 else "a node"
                        notice(
                            f"{which} of place {trial.coming.place} does not answer: no more trials run there"
                        )
                        if not places:
                            raise OperationFailed("no node is left for the trials")
                        continue
                    _add(tuning, done, notice)
        finally:
            for trial in running:
                trial.ask_to_end()
            for trial in running:
                trial.end()
    _check(tuning)


def _add(tuning: Tuning, done: Trial, notice: Callable[[str], None]) -> None:
    tuning.add(done)
    notice(described(len(tuning.trials()), done))


class _Coming(NamedTuple):
    """The next trial on a place, if any; over: none follows once those that run have ended."""

    trial: Next | None = None
    over: bool = False


def _coming(
    tuning: Tuning, running: Sequence[RunningTrial], place: str, left: float, notice: Callable[[str], None]
) -> _Coming:
    """The next trial on a place."""
    trials = tuning.trials()
    mean = fmean([trial.seconds for trial in trials]) if trials else tuning.length
    # Without time for another comparison, the rest of the budget confirms the best candidate.
    pairs = -(-tuning.repeat // len(tuning.groups)) if tuning.per_node else tuning.repeat
    last = left < mean * (2 * pairs + 1)

    def upcoming_with(last: bool) -> Next | None:
        return upcoming(
            tuning.candidates, trials, repeat=tuning.repeat, last=last, running=[trial.coming for trial in running], place=place
        )  # fmt: skip

    coming = upcoming_with(False)
    if coming is None:
        return _Coming(over=not running)
    if last:
        coming = upcoming_with(True)
    if running and (coming is None or left < mean):
        return _Coming()
    if coming is None or left < mean:
        notice(
            f"the budget of {tuning.budget:.3g} node-hours is used up before all candidates were measured: the same "
            "command with a larger `--budget` continues"
        )
        return _Coming(over=True)
    stages = [trial.stage for trial in trials] + [trial.coming.stage for trial in running]
    if last and coming.stage == "confirm" and "confirm" not in stages:
        notice("the rest of the budget is used to confirm the fastest candidate so far")
    return _Coming(coming)


def _begun(tuning: Tuning, coming: Next, plans: dict[str, Plan], left: float) -> Trial | RunningTrial:
    """Start a trial; a candidate that cannot be planned is a failed trial."""
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
    return RunningTrial(tuning, coming, plans[name], left)


def _left(tuning: Tuning, running: Sequence[RunningTrial], until: float | None) -> float:
    """Seconds left for trials, from the budget and the allocation."""
    now = time.monotonic()
    used = tuning.used() + tuning.hours(sum(now - trial.began for trial in running))
    of_budget = 3600 * (tuning.budget - used) / tuning.nodes
    return of_budget if until is None else min(of_budget, until - now - _LEAST)


def described(number: int, done: Trial) -> str:
    """An ended trial in one line: its number, setting and throughput."""
    confirms = " (to confirm)" if done.stage == "confirm" else ""
    result = (
        f"{plain(done.value)} {done.unit}".rstrip() if done.value is not None else f"failed: {done.failed}"
    )
    return f"{number}: {done.candidate}{confirms}: {result}"


def _check(tuning: Tuning) -> None:
    for trial in tuning.trials():
        if trial.candidate == DEFAULT and trial.value is None:
            raise OperationFailed(
                f"the training could not be measured as planned: {trial.failed}",
                help=f"see {tuning.directory / trial.directory / 'logs'}; `metrics: {{throughput: …}}` names what to read",
            )


# Run one trial: the job script of a candidate, until it has logged its throughput for long enough.

_POLL = 0.5
"""Seconds between reads of the logs."""
_GRACE = 40.0
"""Seconds for a script to end its ranks: more than twice their grace of 15 s."""


class RunningTrial:
    """A trial: until its script exits, has logged its throughput for long enough, or `limit` seconds have passed."""

    def __init__(self, tuning: Tuning, coming: Next, plan: Plan, limit: float) -> None:
        self.coming = coming
        self._tuning, self._plan, self._limit = tuning, plan, limit
        self._target = _directory(tuning, coming)
        self._run = self._target / "points" / "0" if plan.pool is not None else self._target
        made = files(plan, None, self._target) | store.named_in(plan, jobs.home(), self._target)
        shared = programs.shared(jobs.home().absolute(), self._target, made)
        directories.create(self._target, made, written_names(plan), shared=shared)
        self.began = time.monotonic()
        self._first: float | None = None
        self._asked: float | None = None
        # end_with: if dlrun is killed, the kernel ends the script (PR_SET_PDEATHSIG).
        with append_to(self._target / "logs" / "job.log") as log:
            self.process = subprocess.Popen(
                ["bash", str(self._target / "job.sh")], cwd=self._target, env=_environment(os.environ, coming.place),
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                preexec_fn=partial(end_with, os.getpid()),  # noqa: PLW1509 - one thread
            )  # fmt: skip

    def look(self) -> Trial | None:
        """The trial once it has ended; ends it when it is time."""
        now = time.monotonic()
        if self.process.poll() is not None:
            self.end()
            return self._ended()
        if self._asked is not None:
            if now - self._asked > _GRACE:
                self.end()
                return self._ended()
            return None
        if self._first is None and self._reading() is not None:
            self._first = now
        if (
            now - self.began > self._limit
            or (self._first is None and now - self.began > self._tuning.startup)
            or (self._first is not None and now - self._first >= self._tuning.length)
        ):
            self.ask_to_end()
        return None

    def is_lost(self) -> bool:
        """Whether the node of an ended trial did not answer any more: the trial has no meaning."""
        return bool(self.coming.place) and (run_state(self._run) or {}).get("reason") == LOST

    def ask_to_end(self) -> None:
        """Ask the script to end its ranks."""
        if self._asked is None and self.process.poll() is None:
            self._asked = time.monotonic()
            self.process.terminate()

    def end(self) -> None:
        """Wait for the script, which ends its ranks; then kill the rest of its session."""
        if self.process.poll() is None:
            self.ask_to_end()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(max(0.0, (self._asked or 0.0) + _GRACE - time.monotonic()))
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _reading(self) -> Reading | None:
        return metrics(self._plan, self._run).get(THROUGHPUT)

    def _ended(self) -> Trial:
        reading, seconds = self._reading(), time.monotonic() - self.began
        # The exit code of a script that is ended here has no meaning.
        code = self.process.returncode if self._asked is None else 0
        failed = None
        if code:
            failed = f"exit code {code}"
        elif reading is None or not reading.value > 0:
            failed = f"no throughput in the log within {seconds:.0f} s"
        return Trial(
            candidate=self.coming.candidate.name, stage=self.coming.stage,
            value=reading.value if reading and not failed else None,
            unit=reading.unit if reading else "", seconds=seconds, directory=str(self._run.relative_to(self._tuning.directory)),
            failed=failed, place=self.coming.place,
        )  # fmt: skip


def run_trial(tuning: Tuning, coming: Next, plan: Plan, limit: float) -> Trial:
    """Run one trial alone. All its processes have ended when this returns or raises (KeyboardInterrupt)."""
    running = RunningTrial(tuning, coming, plan, limit)
    try:
        while (done := running.look()) is None:
            with suppress(subprocess.TimeoutExpired):
                running.process.wait(_POLL)
        return done
    finally:
        running.end()


def _directory(tuning: Tuning, coming: Next) -> Path:
    """A new directory name: the next number, never used before, and the candidate's name."""
    base = tuning.directory / "trials"
    numbers = [path.name.partition("-")[0] for path in base.iterdir()]
    used = [int(number) for number in numbers if digits(number)]
    return base / f"{max(used, default=0) + 1:03d}-{directory_name(coming.candidate.name)}"


def _environment(own: Mapping[str, str], place: str) -> dict[str, str]:
    """The environment without the variables of dlrun's own job, inside which this may run; place: of a pool."""
    kept = {
        name: value
        for name, value in own.items()
        if not name.startswith("DLRUN_") or name in ("DLRUN_JOBS", "DLRUN_SITE_PATH")
    }
    return {**kept, "DLRUN_ONLY_PLACE": place} if place else kept
