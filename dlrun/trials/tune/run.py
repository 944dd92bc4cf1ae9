"""Run trials in this process until the result is certain or the budget is spent."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import fmean

from dlrun.errors import DlrunError, OperationFailed
from dlrun.jobs.code import programs
from dlrun.jobs.hubs import store
from dlrun.jobs.queue.results import metrics
from dlrun.jobs.records import directories, jobs
from dlrun.jobs.submission.files import files
from dlrun.model.plan import Plan
from dlrun.model.text import digits
from dlrun.model.units import plain
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
    return run_trial(tuning, coming, plans[name], left, polled)


def _left(tuning: Tuning, until: float | None) -> float:
    """Seconds left for trials, from the budget and the allocation."""
    of_budget = 3600 * (tuning.budget - tuning.used()) / tuning.nodes
    return of_budget if until is None else min(of_budget, until - time.monotonic() - _LEAST)


def described(number: int, done: Trial) -> str:
    """An ended trial in one line: its number, setting and throughput."""
    confirms = " (to confirm)" if done.stage == "confirm" else ""
    result = (
        f"{plain(done.value)} {done.unit}".rstrip() if done.value is not None else f"failed: {done.failed}"
    )
    return f"{number}: {done.candidate}{confirms}: {result}"


def _check(tuning: Tuning) -> None:
    for one in tuning.trials():
        if one.candidate == DEFAULT and one.value is None:
            raise OperationFailed(
                f"the training could not be measured as planned: {one.failed}",
                help=f"see {tuning.directory / one.directory / 'logs'}; `metrics: {{throughput: …}}` names what to read",
            )


# Run one trial: the job script of a candidate, until it has logged its throughput for long enough.

_POLL = 0.5
"""Seconds between reads of the logs."""
_GRACE = 40.0
"""Seconds for a script to end its ranks: more than twice their grace of 15 s."""


def run_trial(
    tuning: Tuning, coming: Next, plan: Plan, limit: float, polled: Callable[[], None] = lambda: None
) -> Trial:
    """Run a trial until it exits, has logged its throughput for long enough, or `limit` seconds have passed.

    `polled` is called about twice a second.
    All its processes have ended when this returns or raises (KeyboardInterrupt).
    """
    target = _directory(tuning, coming)
    made = files(plan, None, target) | store.named_in(plan, jobs.home(), target)
    shared = programs.shared(jobs.home().absolute(), target, made)
    directories.create(target, made, written_names(plan), shared=shared)
    began = time.monotonic()
    # end_with: if dlrun is killed, the kernel ends the script (PR_SET_PDEATHSIG).
    with append_to(target / "logs" / "job.log") as log:
        process = subprocess.Popen(
            ["bash", str(target / "job.sh")], cwd=target, env=_environment(os.environ), stdin=subprocess.DEVNULL, stdout=log,
            stderr=subprocess.STDOUT, start_new_session=True,
            preexec_fn=partial(end_with, os.getpid()),  # noqa: PLW1509 - one thread
        )  # fmt: skip
    try:
        first = None
        while process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_POLL)
            polled()
            now = time.monotonic()
            if first is None and _reading(plan, target) is not None:
                first = now
            if now - began > limit or (first is None and now - began > tuning.startup):
                break
            if first is not None and now - first >= tuning.length:
                break
        # The exit code of a script that is ended here has no meaning.
        ended_here = process.poll() is None
    finally:
        _end(process)
    reading = _reading(plan, target)
    seconds = time.monotonic() - began
    code = process.returncode
    failed = None
    if reading is None or not reading.value > 0:
        failed = (
            f"exit code {code}"
            if code and not ended_here
            else f"no throughput in the log within {seconds:.0f} s"
        )
    elif code and not ended_here:
        failed = f"exit code {code}"
    return Trial(
        candidate=coming.candidate.name, stage=coming.stage, value=reading.value if reading and not failed else None,
        unit=reading.unit if reading else "", seconds=seconds, directory=str(target.relative_to(tuning.directory)), failed=failed,
    )  # fmt: skip


def _directory(tuning: Tuning, coming: Next) -> Path:
    """A new directory name: the next number, never used before, and the candidate's name."""
    base = tuning.directory / "trials"
    numbers = [path.name.partition("-")[0] for path in base.iterdir()]
    used = [int(number) for number in numbers if digits(number)]
    return base / f"{max(used, default=0) + 1:03d}-{directory_name(coming.candidate.name)}"


def _environment(own: Mapping[str, str]) -> dict[str, str]:
    """The environment without the variables of dlrun's own job, inside which this may run."""
    return {
        name: value
        for name, value in own.items()
        if not name.startswith("DLRUN_") or name in ("DLRUN_JOBS", "DLRUN_SITE_PATH")
    }


def _reading(plan: Plan, run: Path) -> Reading | None:
    return metrics(plan, run).get(THROUGHPUT)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the script, which ends its ranks; then kill the rest of its session."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
