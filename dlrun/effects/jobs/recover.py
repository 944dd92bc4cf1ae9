"""Submissions that broke off: by a lost connection, a kill, a full disk, or a client that never answered.

The record says `submitting` before the client runs, so such a job is known; its id is in the client's answer or in
what the job itself wrote (both are read with the record), else the scheduler is asked which job was submitted from
this directory.
"""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

from dlrun import backends
from dlrun.effects.clusters import local
from dlrun.effects.clusters.environment import clean
from dlrun.effects.process import run
from dlrun.effects.records import jobs
from dlrun.effects.records.belief import read_json
from dlrun.effects.records.jobs import Job
from dlrun.effects.transport.scripts import script
from dlrun.errors import DlrunError, OperationFailed

FINDERS = {"slurm": "find_slurm", "openpbs": "find_pbs", "torque": "find_pbs"}
"""Scheduler -> script that finds a job by the directory it was submitted from."""

_ELSEWHERE = 240.0
"""Seconds after which a submission on another host has ended: a client is given 120 s."""


def mark() -> dict[str, object]:
    """What the record says while a submission goes on: the host, and since when."""
    return {"host": platform.node(), "since": time.time()}


def find(scheduler: str, directory: Path) -> str | None:
    """The id of the job that was submitted from a directory; None if the scheduler has none.

    Raises OperationFailed if that cannot be known.
    """
    if backends.scheduler(scheduler).ON_THIS_MACHINE:
        return local.supervisor(directory)
    text = script(FINDERS.get(scheduler, "find_none")) + '\nfind_job "$@"\n'
    places = dict.fromkeys((str(directory), str(directory.resolve())))
    done = run(["bash", "-c", text, "find", *places], environment=clean(os.environ)[0])
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise OperationFailed(
            f"the scheduler cannot be asked for the job of `{directory}`: {said[-1] if said else 'no answer'}"
        )
    return done.stdout.strip() or None


def known(job: Job) -> Job:
    """The job with its id, if its submission broke off and can be settled now; else as it is."""
    if not job.submitting or job.remote is not None or _goes_on(job.directory):
        return job
    try:
        job_id = find(job.scheduler, job.directory)
    except DlrunError:
        return job  # nobody can tell: it stays as it is
    record = read_json(job.directory / jobs.SUBMISSION) or {}
    since = record.get("submitting")
    if job_id is not None:
        started = since.get("since") if isinstance(since, dict) else None
        record |= {"job_id": job_id, "submitted": record.get("submitted") or started}
    try:
        jobs.write_json(job.directory / jobs.SUBMISSION, record | {"submitting": None})
    except OSError:
        return job
    return jobs.load(job.directory) or job


def _goes_on(directory: Path) -> bool:
    """Whether the client, or the dlrun that runs it, may still be at work."""
    since = (read_json(directory / jobs.SUBMISSION) or {}).get("submitting")
    if not isinstance(since, dict):
        return False
    if since.get("host") != platform.node():
        began = since.get("since")
        return isinstance(began, int | float) and time.time() - began < _ELSEWHERE
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            try:
                if (process / "cwd").samefile(directory) and not _supervises(process):
                    return True
            except OSError:
                continue
    return False


def _supervises(process: Path) -> bool:
    return b"supervise.py" in (process / "cmdline").read_bytes()
