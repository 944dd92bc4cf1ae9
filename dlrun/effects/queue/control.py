"""Cancel, hold and release: one call for the jobs of each scheduler, and one for the points of its sweeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby

from dlrun import backends
from dlrun.effects.clusters import clients, identity, local
from dlrun.effects.queue.selection import Selection
from dlrun.effects.records import outcome
from dlrun.errors import Invalid, OperationFailed
from dlrun.schedulers.protocol import Scheduler
from dlrun.schedulers.refusals import words


def cancel(chosen: Sequence[Selection]) -> Iterator[tuple[Selection, str]]:
    """Cancel each, reporting what happened to it; raises OperationFailed if a scheduler refuses, or is another cluster's."""
    identity.require((one.job for one in chosen), "cancel")
    for one in chosen:
        if one.job.on_this_machine and one.job.job_id is not None:
            yield one, "cancelled" if local.cancel(one.job, one.tasks) else "had ended already"
    yield from _request(
        [one for one in chosen if not one.job.on_this_machine],
        "cancel",
        lambda back_end, ids: back_end.cancel(ids),
    )


def hold(chosen: Sequence[Selection]) -> Iterator[tuple[Selection, str]]:
    """Keep each that waits from starting; raises OperationFailed if a scheduler refuses."""
    yield from _request(_queued(chosen, "hold"), "hold", lambda back_end, ids: back_end.hold(ids))


def release(chosen: Sequence[Selection]) -> Iterator[tuple[Selection, str]]:
    """Let each that is held go; raises OperationFailed if a scheduler refuses."""
    yield from _request(_queued(chosen, "release"), "release", lambda back_end, ids: back_end.release(ids))


def _queued(chosen: Sequence[Selection], word: str) -> Sequence[Selection]:
    identity.require((one.job for one in chosen), word)
    for one in chosen:
        if one.job.on_this_machine:
            raise Invalid(
                f"job `{one.job.directory.name}` runs on this machine, where no job waits",
                help="`dlrun cancel` ends it",
            )
    return chosen


def _request(
    chosen: Sequence[Selection], word: str, arguments: Callable[[Scheduler, Sequence[str]], Sequence[str]]
) -> Iterator[tuple[Selection, str]]:
    submitted = sorted((one for one in chosen if one.job.job_id is not None), key=_call)
    for (name, *_), group in groupby(submitted, key=_call):
        members = list(group)
        back_end = backends.scheduler(name)
        ids = [job_id for one in members for job_id in _ids(back_end, one)]
        done = clients.runner(members[0].job)(arguments(back_end, ids))
        if done.returncode != 0:
            said = words(done.stderr) or f"exit code {done.returncode}"
            raise OperationFailed(f"could not {word}: {said}", help=back_end.advice(done.stderr))
        for one in members:
            if word == "cancel":
                with suppress(
                    OSError
                ):  # a full disk, or another user's directory: the scheduler knows it too
                    outcome.note_cancelled(one.job, one.tasks)
            yield one, f"{word} requested"


def _call(one: Selection) -> tuple[str, str, str, bool]:
    """What is asked for in one call; points apart from jobs: OpenPBS 23.06.06's server may die of a qdel of both."""
    return (*clients.place(one.job), one.tasks is not None)


def _ids(back_end: Scheduler, one: Selection) -> Sequence[str]:
    job_id = str(one.job.job_id)
    return [job_id] if one.tasks is None else [back_end.task_id(job_id, task) for task in one.tasks]
