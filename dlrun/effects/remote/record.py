"""The record that this machine keeps of a job on a login node: made before anything is sent.

So a submission that broke off anywhere is found again by the same command, and continues.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dlrun.effects.records import jobs, submitting
from dlrun.effects.records.belief import read_json
from dlrun.effects.records.jobs import Job, Remote
from dlrun.errors import OperationFailed
from dlrun.model.plan import Plan

SENT = "sent.json"
"""What of the working tree goes along, and the token by which the complete directory is known there."""


def place(name: str, host: str) -> Path:
    """Where the record of a job is, whose directory on a login node has this name.

    The record has another: with a home that both machines see, they would be the same directory.
    """
    safe = re.sub(r"[^A-Za-z0-9.-]", "-", host.rpartition("@")[2])
    return (jobs.home() / f"{name}@{safe}").absolute()


def create(
    directory: Path, plan: Plan, remote: Remote, texts: Mapping[str, str], manifest: Sequence[object]
) -> None:
    """Make the record of a job that is about to be sent; raises OperationFailed if that is not possible."""
    record = {
        jobs.SUBMISSION: json.dumps(
            submission(plan, remote, None, None) | {"submitting": submitting.mark()}, indent=1
        )
        + "\n",
        SENT: json.dumps({"token": secrets.token_hex(16), "files": manifest}) + "\n",
    }
    jobs.create(directory, {**texts, **record}, len(plan.points) or None)


def submission(plan: Plan, remote: Remote, job_id: str | None, cluster: str | None) -> dict[str, Any]:
    """The contents of `submission.json`; without a job id the submission is not complete."""
    return {
        "version": 1,
        "scheduler": plan.scheduler,
        "job_id": job_id,
        "submitting": None,
        "cluster": cluster,
        "site": plan.site,
        "name": plan.name,
        "submitted": time.time() if job_id else None,
        "array": len(plan.points) or None,
        "host": remote.host,
        "transport": remote.transport,
        "remote_directory": remote.directory,
        "unwanted": list(remote.unwanted),
    }


def pending(host: str) -> Iterator[Job]:
    """Submissions to this host that have not come to their end, newest first."""
    for job in jobs.all_jobs(jobs.home()):
        if job.remote is not None and job.job_id is None and job.remote.host == host:
            yield job


def token(directory: Path) -> str:
    """The token of a record."""
    return str((read_json(directory / SENT) or {}).get("token"))


def files(directory: Path) -> list[list[Any]]:
    """What was sent by a record: name below `files/`, size, time of change (ns), mode, link."""
    return list((read_json(directory / SENT) or {}).get("files") or ())


def attempts(directory: Path) -> int:
    """How often this submission was begun."""
    number = (read_json(directory / jobs.SUBMISSION) or {}).get("attempts")
    return number if isinstance(number, int) and 0 < number < 10**9 else 1


def begin_again(directory: Path) -> None:
    """Mark a submission that broke off as being in progress; raises OperationFailed if that cannot be written."""
    known = read_json(directory / jobs.SUBMISSION) or {}
    again = {"submitting": submitting.mark(), "attempts": attempts(directory) + 1}
    try:
        jobs.write_json(directory / jobs.SUBMISSION, known | again)
    except OSError as error:
        raise OperationFailed(
            f"cannot write the job's record `{directory}`: {error.strerror}", help="nothing was submitted"
        ) from None


def settle(
    directory: Path, plan: Plan, remote: Remote, job_id: str, cluster: str | None, say: Callable[[str], None]
) -> Job:
    """Write down that the job is submitted; where that is not possible, the login node knows it all the same."""
    try:
        jobs.write_json(directory / jobs.SUBMISSION, submission(plan, remote, job_id, cluster))
    except OSError as error:
        say(f"warning: job {job_id} is submitted, but its record cannot be written: {error.strerror}")
    job = jobs.load(directory)
    assert job is not None  # noqa: S101 - its record is there since the submission began
    return replace(job, job_id=job_id, cluster=cluster, submitting=False)
