"""Cancel, hold and release jobs: one call per scheduler for jobs, and one for points of sweeps."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence

from dlrun import backends
from dlrun.errors import Invalid, OperationFailed
from dlrun.grouping import grouped
from dlrun.jobs.clusters import clients, control, identity
from dlrun.jobs.queue import status
from dlrun.jobs.queue.selection import Selection
from dlrun.model.job import Action, State
from dlrun.schedulers.refusals import client_message

_BEGUN = (State.RUNNING, State.ENDING)
"""States in which a job can no longer be held."""


def cancel(chosen: Sequence[Selection]) -> Iterator[tuple[Selection, str]]:
    """Cancel jobs or points, and yield each with its result; OperationFailed for a refusal or a job of another cluster."""
    identity.require((one.job for one in chosen), "cancel")
    yield from _request(chosen, "cancel")


def hold(chosen: Sequence[Selection]) -> Iterator[tuple[Selection, str]]:
    """Hold pending jobs, and yield each with its result; raises OperationFailed for a refusal.

    Running and ended jobs are only reported: schedulers would accept the request without effect.
    """
    waiting = []
    known = status.of([one.job for one in _queued(chosen, "hold")], unasked=lambda _: None)
    for one in chosen:
        runs = [run for run in known[one.job.directory] if one.tasks is None or run.task in one.tasks]
        if runs and all(
            run.state in _BEGUN or (run.state.final and run.state is not State.LOST) for run in runs
        ):
            ended = runs[0].state.final
            yield one, f"has ended ({runs[0].state})" if ended else f"is {runs[0].state}: hold has no effect"
        else:
            waiting.append(one)
    yield from _request(waiting, "hold")


def release(chosen: Sequence[Selection]) -> Iterator[tuple[Selection, str]]:
    """Release held jobs, and yield each with its result; raises OperationFailed for a refusal."""
    yield from _request(_queued(chosen, "release"), "release")


def _queued(chosen: Sequence[Selection], word: str) -> Sequence[Selection]:
    identity.require((one.job for one in chosen), word)
    for one in chosen:
        if not control.of(one.job.scheduler).WAITS:
            raise Invalid(
                f"job `{one.job.directory.name}` runs on this machine, which has no queue",
                help="`dlrun cancel` ends it",
            )
    return chosen


def _request(chosen: Sequence[Selection], action: Action) -> Iterator[tuple[Selection, str]]:
    # The jobs of one call; points are separate: OpenPBS 23.06.06's server may crash in a qdel of both.
    calls = grouped(
        ((*clients.place(one.job), one.tasks is not None), one)
        for one in chosen
        if one.job.job_id is not None
    )
    for (scheduler, *_), members in sorted(calls.items()):
        happened = control.of(scheduler).act(action, [(one.job, one.tasks) for one in members])
        yield from zip(members, happened, strict=True)


def scheduler_of(word: str) -> str | None:
    """The scheduler of this host whose job ids have the form of a word; else None."""
    for name in backends.schedulers():
        back_end = backends.scheduler(name)
        asked = control.of(name).WAITS and shutil.which(back_end.CLIENT)
        if asked and re.fullmatch(back_end.ID, word):
            return name
    return None


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
