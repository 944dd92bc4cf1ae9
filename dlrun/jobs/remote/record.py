"""The local record of a job on a login node, created before anything is sent.

So the same command finds and resumes an interrupted submission.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dlrun.errors import OperationFailed
from dlrun.jobs.code import programs
from dlrun.jobs.records import directories, jobs, process_mark, submission, submitter
from dlrun.jobs.records.jobs import Job, Remote
from dlrun.jobs.records.validation import read_json
from dlrun.model.plan import Plan
from dlrun.render.written_names import written_names

SENT = "sent.json"
"""The sent files, and the token that identifies the complete directory on the login node."""


def place(name: str, host: str) -> Path:
    """The path of the record of a job with this directory name on a login node.

    The names differ: with a shared home directory they would be the same directory.
    """
    safe = re.sub(r"[^A-Za-z0-9.-]", "-", host.rpartition("@")[2])
    return (jobs.home() / f"{name}@{safe}").absolute()


def create(
    directory: Path, plan: Plan, remote: Remote, texts: Mapping[str, str], manifest: Sequence[object]
) -> None:
    """Create the record of a job before it is sent; raises OperationFailed."""
    record = {
        directories.SUBMISSION: submission.as_text(
            made(plan, remote, None, None) | {"submitting": process_mark.mark()}
        ),
        # Random: it distinguishes this submission's directory from an older one with the same name.
        SENT: json.dumps({"token": secrets.token_hex(16), "files": manifest}) + "\n",
    }
    shared = programs.shared(directory.parent, directory, texts)
    directories.create(directory, {**texts, **record}, written_names(plan), shared=shared)


def made(plan: Plan, remote: Remote, job_id: str | None, cluster: str | None) -> dict[str, Any]:
    """The content of `submission.json`; job_id: None for an incomplete submission."""
    return submission.made(
        plan, job_id=job_id, cluster=cluster, host=remote.host, transport=remote.transport,
        remote_directory=remote.directory, unwanted=list(remote.unwanted),
    )  # fmt: skip


def pending(host: str) -> Iterator[Job]:
    """Incomplete submissions to a host, newest first."""
    for job in jobs.all_jobs(jobs.home()):
        if job.resumable and job.remote is not None and job.remote.host == host:
            yield job


def token(directory: Path) -> str:
    """The token of a record."""
    return str((read_json(directory / SENT) or {}).get("token"))


def files(directory: Path) -> list[list[Any]]:
    """The sent files of a record: name below `files/`, size, mtime (ns), mode, link."""
    return list((read_json(directory / SENT) or {}).get("files") or ())


def attempts(directory: Path) -> int:
    """The number of attempts at this submission."""
    number = submission.read(directory).get("attempts")
    return number if isinstance(number, int) and 0 < number < 10**9 else 1


def restart(directory: Path) -> None:
    """Mark an interrupted submission as in progress; raises OperationFailed if the record cannot be written."""
    attempt = {"submitting": process_mark.mark(), "attempts": attempts(directory) + 1}
    try:
        submission.write(directory, submission.read(directory) | attempt)
    except OSError as error:
        raise OperationFailed(
            f"cannot write the job's record `{directory}`: {error.strerror}", help="nothing was submitted"
        ) from None


def settle(
    directory: Path,
    plan: Plan,
    remote: Remote,
    job_id: str,
    cluster: str | None,
    notice: Callable[[str], None],
    *,
    printed_and_changed: Mapping[str, list[str]] | None = None,
) -> Job:
    """Record the job id; a failure is only a warning, since the login node has the id, too."""
    submitter.note(job_id)
    entry = made(plan, remote, job_id, cluster) | dict(printed_and_changed or {})
    submission.settle(directory, entry, notice)
    job = jobs.load(directory)
    assert job is not None  # noqa: S101 - its record is there since the submission began
    return replace(job, job_id=job_id, cluster=cluster, submitting=False)
