"""Cancel, hold and release jobs: one call per scheduler for jobs, and one for points of sweeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from dlrun.errors import DlrunError, Invalid, OperationFailed
from dlrun.grouping import grouped
from dlrun.jobs.clusters import clients, control, identity
from dlrun.jobs.queue import status
from dlrun.jobs.queue.selection import Selection
from dlrun.jobs.records import jobs as records, outcome
from dlrun.jobs.records.validation import run_state
from dlrun.model.job import HELD_BY_CENTRE, Action, JobStatus, State

_BEGUN = (State.RUNNING, State.ENDING)
"""States in which a job can no longer be held."""


def cancel(chosen: Sequence[Selection]) -> Iterator[tuple[Selection, str]]:
    """Cancel jobs or points, and yield each with its result; OperationFailed for a refusal or a job of another cluster."""
    identity.require((selection.job for selection in chosen), "cancel")
    over = _over_before(chosen)
    yield from over
    yield from _request(_others(chosen, over), "cancel")


def hold(chosen: Sequence[Selection]) -> Iterator[tuple[Selection, str]]:
    """Hold pending jobs, and yield each with its result; raises OperationFailed for a refusal.

    Running and ended jobs are only reported: schedulers would accept the request without effect.
    """
    waiting = []
    for selection, runs in _runs(_queued(chosen, "hold")):
        if runs and all(run.state in _BEGUN or _has_ended(run) for run in runs):
            yield (
                selection,
                _ended_as(runs) if runs[0].state.final else f"is {runs[0].state}: hold has no effect",
            )
        else:
            waiting.append(selection)
    yield from _request(waiting, "hold")


def release(chosen: Sequence[Selection]) -> Iterator[tuple[Selection, str]]:
    """Release held jobs, and yield each with its result; raises OperationFailed for a refusal."""
    over = _over_before(_queued(chosen, "release"))
    yield from over
    released, refusal = [], None
    try:
        for done in _request(_others(chosen, over), "release"):
            released.append(done)  # noqa: PERF402 - those before a refusal count, too
    except OperationFailed as error:
        refusal = error
    held = _still_held([selection for selection, _ in released])
    for selection, result in released:
        yield selection, _HELD if id(selection) in held else result
    if refusal is not None:
        raise refusal


_HELD = "is still held, by an administrator or operator: only the centre can release it"


def _still_held(released: Sequence[Selection]) -> set[int]:
    """The identities of those held by others than their user, whose release some schedulers accept without effect."""
    return {
        id(selection)
        for selection, runs in _runs(released)
        if any(run.state is State.HELD and run.reason == HELD_BY_CENTRE for run in runs)
    }


def _queued(chosen: Sequence[Selection], word: str) -> Sequence[Selection]:
    identity.require((selection.job for selection in chosen), word)
    for selection in chosen:
        if not control.of(selection.job.scheduler).WAITS:
            raise Invalid(
                f"job `{selection.job.directory.name}` runs on this machine, which has no queue",
                help="`dlrun cancel` ends it",
            )
    return chosen


def _request(chosen: Sequence[Selection], action: Action) -> Iterator[tuple[Selection, str]]:
    # The jobs of one call; points are separate: OpenPBS 23.06.06's server may crash in a qdel of both.
    calls = grouped(
        ((*clients.place(selection.job), selection.tasks is not None), selection)
        for selection in chosen
        if selection.job.job_id is not None
    )
    for (scheduler, *_), members in sorted(calls.items()):
        happened = control.of(scheduler).act(
            action, [(selection.job, selection.tasks) for selection in members]
        )
        try:
            yield from zip(members, happened, strict=True)
        except OperationFailed:
            over = _over(members) if action != "cancel" or len(members) == 1 else _over_after(members)
            if not over:
                raise
            yield from over
            yield from _request(_others(members, over), action)


def _over_before(chosen: Sequence[Selection]) -> list[tuple[Selection, str]]:
    """Those that have ended, with the result for each, before a call in which their scheduler may refuse them with the others.

    Others accept them in silence. A single job is asked about only if its own files have its end, which may be that of its
    run before: a call too many would delay each cancel.
    """
    known = [
        selection
        for selection in chosen
        if selection.job.job_id is not None and control.of(selection.job.scheduler).WAITS
    ]
    return _over(
        known if len(known) > 1 else [selection for selection in known if _may_have_ended(selection)]
    )


def _may_have_ended(selection: Selection) -> bool:
    job = records.latest(selection.job)
    return outcome.seen(job) is not None or all(
        (run_state(run) or {}).get("state") == "ended" for run in selection.runs
    )


def _over(chosen: Sequence[Selection]) -> list[tuple[Selection, str]]:
    return [
        (selection, _ended_as(runs))
        for selection, runs in _runs(chosen)
        if runs and all(map(_has_ended, runs))
    ]


_SOON_AFTER = (State.ENDING, State.CANCELLED, State.LOST, State.UNKNOWN)
"""What a job is soon after its cancellation; a scheduler may already have forgotten one that never started."""


def _over_after(chosen: Sequence[Selection]) -> list[tuple[Selection, str]]:
    """The result for each that has ended or was cancelled, after a cancel of several that was refused because of some.

    Empty if none has ended: then the refusal has another reason.
    """
    known = [(selection, runs) for selection, runs in _runs(chosen) if runs]
    if not any(all(map(_has_ended, runs)) for _, runs in known):
        return []
    results = []
    for selection, runs in known:
        if all(run.state in _SOON_AFTER for run in runs):
            with suppress(OSError):  # as where the call succeeds
                outcome.note_cancelled(selection.job, selection.tasks)
            results.append((selection, "cancel requested"))
        elif all(map(_has_ended, runs)):
            results.append((selection, _ended_as(runs)))
    return results


def _others(chosen: Sequence[Selection], over: Sequence[tuple[Selection, str]]) -> list[Selection]:
    done = {id(selection) for selection, _ in over}
    return [selection for selection in chosen if id(selection) not in done]


def _runs(chosen: Sequence[Selection]) -> list[tuple[Selection, list[JobStatus]]]:
    """Each with the statuses of its runs, by one question for all; without runs where a scheduler does not answer."""
    known: Mapping[Path, list[JobStatus]] = {}
    with suppress(DlrunError):
        known = status.of([selection.job for selection in chosen])
    return [
        (
            selection,
            [
                run
                for run in known.get(selection.job.directory, ())
                if selection.tasks is None or run.task in selection.tasks
            ],
        )
        for selection in chosen
    ]


def _has_ended(run: JobStatus) -> bool:
    return run.state.final and run.state is not State.LOST


def _ended_as(runs: Sequence[JobStatus]) -> str:
    return f"has ended ({runs[0].state})"
