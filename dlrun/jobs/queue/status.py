"""The state of any number of jobs: one call to each queue, and one to accounting for jobs no longer queued.

The state of jobs unknown to the scheduler comes from their own files. A final state is recorded once it is certain, and
not queried again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from dlrun import backends
from dlrun.errors import DlrunError
from dlrun.jobs.clusters import clients, control, identity
from dlrun.jobs.clusters.query import QueueAnswers
from dlrun.jobs.code.history import History
from dlrun.jobs.queue import inside, role_states
from dlrun.jobs.records import jobs as records, outcome, submission
from dlrun.jobs.records.jobs import Job
from dlrun.jobs.records.validation import run_state
from dlrun.model.job import JobStatus, State
from dlrun.model.json_codec import to_plain
from dlrun.system.process import NotInstalled, Runner


def of(
    jobs: Sequence[Job],
    runner: Runner | None = None,
    *,
    prompt: bool = True,
    unasked: Callable[[str], None] | None = None,
) -> dict[Path, list[JobStatus]]:
    """Job directory -> statuses: one, or for a sweep one per point; none for a job that was never submitted.

    runner: runs the clients (default: on the host of each job's submission); prompt: passwords may be requested. Each
    scheduler has `WITHIN` seconds. For one that does not answer, `unasked` is called with a message, and the statuses come
    from the jobs' files; without `unasked` OperationFailed is raised.
    """
    statuses: dict[Path, list[JobStatus]] = {}
    to_ask: dict[tuple[str, ...], list[Job]] = {}
    for job in map(records.latest, jobs):
        if job.job_id is None:
            statuses[job.directory] = []
        elif (known := outcome.read(job)) is not None:
            statuses[job.directory] = known
        else:
            to_ask.setdefault(clients.place(job), []).append(job)
    inquiries = [_Inquiry(members, runner, prompt=prompt) for members in to_ask.values()]
    _ask_all(inquiries)
    for inquiry in inquiries:
        if inquiry.error is not None and unasked is None:
            raise inquiry.error
        if inquiry.error is not None and unasked is not None:
            first, *_ = str(inquiry.error).splitlines()  # some clients print all of their options
            unasked(f"{inquiry.where} could not be asked about {_count(inquiry.jobs)}: {first}")
        for job in inquiry.jobs:
            runs = _statuses(job, inquiry.known.get(job.directory, inquiry.silence))
            statuses[job.directory] = _unless_doubtful(job, runs, runner)
    # A job that submits itself again does so before it ends: its end is that of the run before, if it has another id now.
    ended = [job for inquiry in inquiries for job in inquiry.jobs if _all_final(statuses[job.directory])]
    followed = [later for job in ended if (later := _latest(job, prompt=prompt)).job_id != job.job_id]
    if followed:
        statuses |= of(followed, runner, prompt=prompt, unasked=unasked)
    return statuses


def _latest(job: Job, *, prompt: bool) -> Job:
    """The job with its latest id; of a job on a login node after another copy of its record, and of the states of its roles."""
    if job.remote is not None and (job.roles or backends.scheduler(job.scheduler).REQUEUE is None):
        from dlrun.jobs.remote import copies  # noqa: PLC0415 - only for jobs that are elsewhere

        with suppress(DlrunError):
            copies.fetch_states(job.remote, [job], prompt=prompt)
    return records.latest(job)


def _all_final(statuses: Sequence[JobStatus]) -> bool:
    return all(status.state.final for status in statuses)


class _Inquiry:
    """The query of one scheduler about its jobs, on this host or one login node."""

    def __init__(self, jobs: Sequence[Job], runner: Runner | None, *, prompt: bool) -> None:
        self.jobs = jobs
        self.known: dict[Path, QueueAnswers | list[JobStatus] | str] = {}
        self.error: DlrunError | None = None
        self._runner = runner
        self._prompt = prompt
        self.where = clients.described(jobs[0])
        self.may_prompt = prompt and jobs[0].remote is not None
        self.silence = f"{jobs[0].scheduler} cannot be asked from this host"

    def run(self) -> None:
        """Run the query; errors are stored in `error`, so that other schedulers are not affected."""
        try:
            self._ask()
        except NotInstalled:
            pass
        except DlrunError as error:
            self.error = error
            self.silence = f"{self.where} does not answer"

    def _ask(self) -> None:
        """Query the jobs of the cluster that answers; raises the errors."""
        first = self.jobs[0]
        if first.remote is not None:
            # Before the scheduler is queried: its answer may be newer than the states, never older.
            self._copy_states(self.jobs)
            self.jobs = list(map(records.latest, self.jobs))
        runner = self._runner or clients.runner(first, clients.WITHIN)
        here = []
        for job in self.jobs:
            if own := identity.unreachable(job, runner):
                self.known[job.directory] = f"on {own}, not reachable from here"
            else:
                here.append(job)
        if not here:
            return
        try:
            answers = control.of(first.scheduler).ask(here, runner)
        except DlrunError:
            if not (inside := clients.place(first)[3]):
                raise
            # An instance inside a job ends with that: its own jobs' files are what is left.
            self.known |= {job.directory: f"the instance `{inside}` does not answer" for job in here}
            return
        ended = [job for job in here if job.remote and _has_ended_since(job, answers[job.directory])]
        if ended:
            # The end of a whole job is not that of each of its points, and an outcome is recorded for good.
            self._copy_states(ended)
        self.known |= answers

    def _copy_states(self, jobs: Sequence[Job]) -> None:
        """Copy the states of jobs on a login node; raises the errors."""
        from dlrun.jobs.remote import copies  # noqa: PLC0415 - only for jobs that are elsewhere

        if (remote := jobs[0].remote) is not None:
            copies.fetch_states(remote, jobs, prompt=self._prompt)


def _has_ended_since(job: Job, answers: QueueAnswers | list[JobStatus]) -> bool:
    """Whether the scheduler reports the end of a run, or does not list it, whose copied state is not that of an end."""
    if isinstance(answers, list):
        return False
    by_task = answers.about(str(job.job_id))
    for task, run in enumerate(job.run_directories()):
        known = by_task.get(task, by_task.get(None))
        if (known is None or known.state.final) and (run_state(run) or {}).get("state") != "ended":
            return True
    return False


def _ask_all(inquiries: Sequence[_Inquiry]) -> None:
    """Run all queries concurrently, except those that may request a password: there is only one terminal."""
    # Daemon threads: Ctrl-C must not wait for a scheduler that does not answer.
    quiet = [inquiry for inquiry in inquiries if not inquiry.may_prompt]
    threads = (
        [threading.Thread(target=inquiry.run, daemon=True) for inquiry in quiet] if len(inquiries) > 1 else []
    )
    for thread in threads:
        thread.start()
    for inquiry in inquiries if not threads else (inquiry for inquiry in inquiries if inquiry.may_prompt):
        inquiry.run()
    for thread in threads:
        thread.join()


def _unless_doubtful(job: Job, runs: list[JobStatus], runner: Runner | None) -> list[JobStatus]:
    """The statuses, where a lost job counts as unknown if something else may have answered than what has it."""
    if not any(run.state is State.LOST for run in runs) or not identity.is_doubtful(job, runner):
        return runs
    reason = f"{job.scheduler} does not know it here, and may not be what it was submitted to"
    return [
        replace(run, state=State.UNKNOWN, reason=reason) if run.state is State.LOST else run for run in runs
    ]


def _count(jobs: Sequence[Job]) -> str:
    return f"{len(jobs)} jobs" if len(jobs) > 1 else f"job {jobs[0].job_id}"


def _statuses(job: Job, answer: QueueAnswers | list[JobStatus] | str) -> list[JobStatus]:
    """A status for each run, from answers, or from the reason without them; the array's own for tasks not listed yet."""
    if isinstance(answer, list):
        return answer
    answers, unasked = (answer, None) if isinstance(answer, QueueAnswers) else (None, answer)
    # The scheduler's word about an end is more than the job's own files have, such as all of its nodes, or a preemption.
    if unasked is not None and (seen := outcome.seen(job)) is not None:
        return seen
    by_task = answers.about(str(job.job_id)) if answers else {}
    tasks = [None] if job.array is None else range(job.array)
    whole = by_task.get(None)
    if job.pool:
        by_task, whole = inside.known(job, whole), None
    statuses = []
    for task, directory in zip(tasks, job.run_directories(), strict=True):
        known = by_task.get(task)
        if known is None and whole is not None and not whole.state.final:
            known = replace(whole, task=task)
        statuses.append(outcome.complete(known, job, task, directory, unasked=unasked))
    lost = any(status.state is State.LOST for status in statuses)
    if answers and not lost and _all_final(statuses):
        # A full disk, or another user's directory: the scheduler is queried again next time.
        with suppress(OSError):
            outcome.write(job, statuses, certain=answers.certain(str(job.job_id)))
    return statuses


def as_data(job: Job, states: Sequence[JobStatus]) -> dict[str, Any]:
    """A job and its runs for `--json`."""
    code = History(job)
    return {
        "directory": str(job.directory),
        "name": job.name,
        "site": job.site,
        "scheduler": job.scheduler,
        "job_id": job.job_id,
        "submitted": job.submitted,
        "commit": code.commit,
        "code_changed": code.changes,
        "scheduler_changed": submission.changed(job.directory),
        "runs": to_plain(states),
        **({"lost_nodes": inside.lost(job)} if job.pool else {}),
        **({"roles": to_plain(role_states.of(job, states))} if job.roles else {}),
    }
