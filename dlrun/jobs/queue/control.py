"""Cancel, hold and release jobs: one call per scheduler for jobs, and one for points of sweeps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from dlrun.errors import DlrunError, Invalid, OperationFailed
from dlrun.grouping import grouped
from dlrun.jobs.clusters import clients, control, identity
from dlrun.jobs.queue import status
from dlrun.jobs.queue.selection import Selection
from dlrun.model.job import HELD_BY_CENTRE, Action, State

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
    for one, result in _request(_queued(chosen, "release"), "release"):
        yield one, _still_held(one) or result


def _still_held(chosen: Selection) -> str | None:
    """That a job is held by others than its user, whose release some schedulers accept without effect; else None."""
    with suppress(DlrunError):
        runs = status.of([chosen.job], unasked=lambda _: None)[chosen.job.directory]
        if any(run.state is State.HELD and run.reason == HELD_BY_CENTRE for run in runs):
            return "is still held, by an administrator or operator: only the centre can release it"
    return None


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
        try:
            yield from zip(members, happened, strict=True)
        except OperationFailed:
            over = _over(members)
            if not over:
                raise
            yield from over
            names = {id(one) for one, _ in over}
            yield from _request([one for one in members if id(one) not in names], action)


def _over(chosen: Sequence[Selection]) -> list[tuple[Selection, str]]:
    """Those that have ended, with the result for each: some schedulers refuse them, others accept that in silence."""
    found = []
    with suppress(DlrunError):
        known = status.of([one.job for one in chosen], unasked=lambda _: None)
        for one in chosen:
            runs = [run for run in known[one.job.directory] if one.tasks is None or run.task in one.tasks]
            if runs and all(run.state.final and run.state is not State.LOST for run in runs):
                found.append((one, f"has ended ({runs[0].state})"))
    return found
