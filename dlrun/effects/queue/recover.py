"""Complete submissions interrupted by a lost connection, a kill, a full disk, or a client without an answer.

The record has the entry `submitting` before a scheduler or login node is contacted. The job id is in the client's answer
file or in the job's own files (both are read with the record); else the scheduler is asked for the job of this
directory. For a job on a login node the same is done there.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from dlrun.effects.clusters import control
from dlrun.effects.records import jobs, submitter
from dlrun.effects.records.jobs import Job
from dlrun.effects.records.validation import read_json
from dlrun.errors import DlrunError


def completed(job: Job, *, prompt: bool = False) -> Job:
    """The job with its id, if its interrupted submission can be completed now; else the job unchanged.

    prompt: a login node may request a password.
    """
    entry = submitter.read(job.directory) if job.submitting else None
    if entry is None or submitter.in_progress(entry):
        return job
    try:
        if job.remote is not None:
            from dlrun.effects.remote import recover  # noqa: PLC0415 - only for jobs that are elsewhere

            job_id = recover.submitted_id(job, job.remote, prompt=prompt)
        elif _client_runs(job.directory):
            return job
        else:
            job_id = control.of(job.scheduler).find(job.scheduler, job.directory)
    except DlrunError:
        return job  # the result is unknown
    # Read again: the query can take half a minute, in which the submission may have been repeated.
    record = read_json(job.directory / jobs.SUBMISSION) or {}
    if record.get("submitting") != entry:
        return job
    if job_id is not None:
        record |= {"job_id": job_id, "submitted": record.get("submitted") or entry.get("since")}
    try:
        jobs.write_json(job.directory / jobs.SUBMISSION, record | {"submitting": None})
    except OSError:
        return job
    return jobs.load(job.directory) or job


def _client_runs(directory: Path) -> bool:
    """Whether a client left by a killed dlrun may still be running: a process in the job directory."""
    import psutil  # noqa: PLC0415 - 20 ms that `dlrun status` rarely has use for

    # Other users' processes have no `cwd` here (permission denied); they cannot have submitted this job.
    for process in psutil.process_iter(["cwd", "cmdline"]):
        words = process.info["cmdline"] or []
        if process.pid == os.getpid() or not process.info["cwd"] or any("supervise.py" in w for w in words):
            continue
        with suppress(OSError):
            if Path(process.info["cwd"]).samefile(directory):
                return True
    return False
