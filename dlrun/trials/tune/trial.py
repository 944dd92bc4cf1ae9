"""Run one trial: the job script of a candidate, until it has logged its throughput for long enough."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from dlrun.jobs.code import programs
from dlrun.jobs.hubs import store
from dlrun.jobs.queue.results import metrics
from dlrun.jobs.records import directories, jobs
from dlrun.jobs.submission.files import files
from dlrun.model.plan import Plan
from dlrun.model.text import digits
from dlrun.node.supervise import end_with
from dlrun.plan.metrics.log import Reading
from dlrun.plan.metrics.spec import THROUGHPUT
from dlrun.render.written_names import written_names
from dlrun.system.writing import append_to
from dlrun.trials.tune.race import Next, Trial
from dlrun.trials.tune.record import Tuning, directory_name

_POLL = 0.5
"""Seconds between reads of the logs."""
_GRACE = 40.0
"""Seconds for a script to end its ranks: more than twice their grace of 15 s."""


def run(
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
