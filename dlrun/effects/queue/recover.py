"""Submissions that broke off: by a lost connection, a kill, a full disk, or a client that never answered.

The record contains `submitting` before anything is asked of a scheduler or login node, so such a job is known. Its id
is in the client's answer or in what the job itself wrote (both are read with the record), else the scheduler is asked
which job was submitted from this directory; of a job on a login node, the directory there is asked for all of these.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from dlrun.effects.clusters import control
from dlrun.effects.records import jobs, submitting
from dlrun.effects.records.belief import read_json
from dlrun.effects.records.jobs import Job
from dlrun.errors import DlrunError


def known(job: Job, *, prompt: bool = False) -> Job:
    """The job with its id, if its submission broke off and can be settled now; else as it is.

    A login node is asked for it; unless `prompt`, no password is asked for.
    """
    entry = submitting.read(job.directory) if job.submitting else None
    if entry is None or submitting.in_progress(entry):
        return job
    try:
        if job.remote is not None:
            from dlrun.effects.remote import recover  # noqa: PLC0415 - only for jobs that are elsewhere

            job_id = recover.found(job, job.remote, prompt=prompt)
        elif _goes_on(job.directory):
            return job
        else:
            job_id = control.of(job.scheduler).find(job.scheduler, job.directory)
    except DlrunError:
        return job  # unknown: it is left unchanged
    record = read_json(job.directory / jobs.SUBMISSION) or {}
    if record.get("submitting") != entry:
        return job  # the same submission was started again meanwhile
    if job_id is not None:
        record |= {"job_id": job_id, "submitted": record.get("submitted") or entry.get("since")}
    try:
        jobs.write_json(job.directory / jobs.SUBMISSION, record | {"submitting": None})
    except OSError:
        return job
    return jobs.load(job.directory) or job


def _goes_on(directory: Path) -> bool:
    """Whether the client, which a dlrun that was killed has left behind, may still be at work."""
    import psutil  # noqa: PLC0415 - 20 ms that `dlrun status` rarely has use for

    # Other users' processes have no `cwd` here (permission denied), and none of them submitted this job.
    for process in psutil.process_iter(["cwd", "cmdline"]):
        words = process.info["cmdline"] or []
        if process.pid == os.getpid() or not process.info["cwd"] or any("supervise.py" in w for w in words):
            continue
        with suppress(OSError):
            if Path(process.info["cwd"]).samefile(directory):
                return True
    return False
