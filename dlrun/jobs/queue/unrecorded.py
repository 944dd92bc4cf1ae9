"""A job without a directory here, such as one whose directory was removed: what its scheduler reports for its id."""

from __future__ import annotations

import re
import shutil
from contextlib import suppress

from dlrun import backends
from dlrun.errors import OperationFailed
from dlrun.jobs.clusters import clients, control, identity
from dlrun.jobs.clusters.query import ask_queue
from dlrun.model.job import JobStatus
from dlrun.model.record import record
from dlrun.schedulers.refusals import client_message


@record(frozen=True, slots=True, kw_only=True)
class Unrecorded:
    """A job by its id; runs: one, or those of an array."""

    job_id: str
    scheduler: str
    runs: list[JobStatus]


def known(word: str) -> Unrecorded | None:
    """What this host's scheduler knows of a job id; None if the word is none, or the scheduler does not know it.

    Raises OperationFailed if it does not answer.
    """
    failure: OperationFailed | None = None
    silent = 0
    for scheduler in (candidates := schedulers_of(word)):
        try:
            statuses = ask_queue(backends.scheduler(scheduler), {word: None}, clients.here).about(word)
        except OperationFailed as error:  # such as clients that are configured for no cluster
            failure = failure or error
            silent += 1
            continue
        runs = [
            status
            for _, status in sorted(statuses.items(), key=lambda item: -1 if item[0] is None else item[0])
        ]
        if runs:
            return Unrecorded(job_id=word, scheduler=scheduler, runs=runs)
    if failure is not None and silent == len(candidates):
        raise failure
    return None


def scheduler_of(word: str) -> str | None:
    """The scheduler of this host that has a job; without an answer the first whose ids have that form; None without any."""
    candidates = schedulers_of(word)
    if len(candidates) > 1:
        with suppress(OperationFailed):
            if (unrecorded := known(word)) is not None:
                return unrecorded.scheduler
    return next(iter(candidates), None)


def schedulers_of(word: str) -> list[str]:
    """The schedulers with clients on this host whose job ids have the form of a word."""
    names = []
    for name in backends.schedulers():
        back_end = backends.scheduler(name)
        asked = control.of(name).WAITS and shutil.which(back_end.CLIENT)
        if asked and re.fullmatch(back_end.ID, word):
            names.append(name)
    return names


def cancel_id(job_id: str, scheduler: str) -> str:
    """Cancel a job without a record by its scheduler id; returns a report with the cluster.

    Raises OperationFailed for a refusal, such as for other users' jobs.
    """
    back_end = backends.scheduler(scheduler)
    there = identity.known(scheduler, clients.soon)
    done = clients.here(back_end.cancel([job_id]))
    if done.returncode != 0:
        reason = client_message(done.stderr.strip() or done.stdout) or f"exit code {done.returncode}"
        raise OperationFailed(f"could not cancel: {reason}", help=back_end.advice(reason))
    return f"cancel requested of {scheduler}" + (f" on cluster `{there}`" if there else "")
