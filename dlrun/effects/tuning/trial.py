"""One trial: a candidate's own job script, run here until it has printed its throughput for long enough."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from dlrun.effects.jobs.files import files
from dlrun.effects.queue.results import metrics
from dlrun.effects.records import jobs
from dlrun.effects.tuning.tuning import Tuning
from dlrun.model.plan import Plan
from dlrun.node.supervise import end_with_supervisor
from dlrun.plan.metrics.log import Reading
from dlrun.plan.metrics.spec import THROUGHPUT
from dlrun.plan.tuning.race import Next, Trial

_LOOK = 0.5
"""Seconds between two looks at the logs."""
_END = 40.0
"""Seconds that a script has to end its ranks: twice their own grace of 15 s, and some."""


def run(tuning: Tuning, coming: Next, plan: Plan, limit: float) -> Trial:
    """Run a trial to its end, which comes when it ends by itself, has printed long enough, or after `limit` seconds.

    Everything that it started is gone when this returns, also if it raises (KeyboardInterrupt and the like).
    """
    target = _directory(tuning, coming)
    jobs.create(target, files(plan, None, target), None)
    began = time.monotonic()
    with (target / "logs" / "job.log").open("ab") as log:
        process = subprocess.Popen(
            ["bash", "job.sh"], cwd=target, env=_environment(os.environ), stdin=subprocess.DEVNULL, stdout=log,
            stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=end_with_supervisor,  # noqa: PLW1509 - one thread
        )  # fmt: skip
    try:
        first = None
        while process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK)
            now = time.monotonic()
            if first is None and _reading(plan, target) is not None:
                first = now
            if now - began > limit or (first is None and now - began > tuning.startup):
                break
            if first is not None and now - first >= tuning.length:
                break
        cut = process.poll() is None
    finally:
        _end(process)
    reading = _reading(plan, target)
    seconds = time.monotonic() - began
    code = process.returncode
    failed = None
    if reading is None or not reading.value > 0:
        failed = (
            f"exit code {code}" if code and not cut else f"no throughput in the log within {seconds:.0f} s"
        )
    elif code and not cut:
        failed = f"exit code {code}"
    return Trial(
        candidate=coming.candidate.name, stage=coming.stage, value=reading.value if reading and not failed else None,
        unit=reading.unit if reading else "", seconds=seconds, directory=str(target.relative_to(tuning.directory)), failed=failed,
    )  # fmt: skip


def _directory(tuning: Tuning, coming: Next) -> Path:
    """A name that no trial has had, also not one that was killed: its number and the candidate's."""
    base = tuning.directory / "trials"
    used = [int(path.name.partition("-")[0]) for path in base.iterdir() if path.name[:1].isdigit()]
    safe = "".join(c if c.isalnum() or c in "._=" else "-" for c in coming.candidate.name)[:60]
    return base / f"{max(used, default=0) + 1:03d}-{safe}"


def _environment(own: Mapping[str, str]) -> dict[str, str]:
    """The environment without what dlrun's own job, inside which this may run, has set for itself."""
    return {
        name: value
        for name, value in own.items()
        if not name.startswith("DLRUN_") or name in ("DLRUN_JOBS", "DLRUN_SITE_PATH")
    }


def _reading(plan: Plan, run: Path) -> Reading | None:
    return metrics(plan, run).get(THROUGHPUT)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the script, which ends its ranks; what is left of its session after that is killed."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
