"""Complete submissions interrupted by a lost connection, a kill, a full disk, or a client without an answer.

The record has the entry `submitting` before a scheduler or login node is contacted. The job id is in the client's answer
file or in the job's own files (both are read with the record); else the scheduler is asked for the job of this
directory. For a job on a login node the same is done there.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from dlrun.errors import DlrunError
from dlrun.jobs.clusters import control
from dlrun.jobs.records import jobs, process_mark, submission, submitter
from dlrun.jobs.records.jobs import Job
from dlrun.system.process import command_line, processes


def completed(job: Job, *, prompt: bool = False) -> Job:
    """The job with its id, if its interrupted submission can be completed now; else the job unchanged.

    prompt: a login node may request a password.
    """
    entry = submitter.read(job.directory) if job.submitting else None
    if entry is None or process_mark.in_progress(entry):
        return job
    try:
        if job.remote is not None:
            from dlrun.jobs.remote import recover  # noqa: PLC0415 - only for jobs that are elsewhere

            job_id = recover.submitted_id(job, job.remote, prompt=prompt)
        elif _client_runs(job.directory):
            return job
        else:
            job_id = control.of(job.scheduler).find(job.scheduler, job.directory)
    except DlrunError:
        return job  # the result is unknown
    # Read again: the query can take half a minute, in which the submission may have been repeated.
    record = submission.read(job.directory)
    if record.get("submitting") != entry:
        return job
    if job_id is not None:
        record |= {"job_id": job_id, "submitted": record.get("submitted") or entry.get("since")}
    try:
        submission.write(job.directory, record | {"submitting": None})
    except OSError:
        return job
    return jobs.load(job.directory) or job


def _client_runs(directory: Path) -> bool:
    """Whether a client left by a killed dlrun may still be running: a process in the job directory."""
    for pid in processes():
        if pid == os.getpid() or any("supervise.py" in word for word in command_line(pid)):
            continue
        # Other users' processes have no `cwd` here (permission denied); they cannot have submitted this job.
        with suppress(OSError):
            if Path(f"/proc/{pid}/cwd").samefile(directory):
                return True
    return False
