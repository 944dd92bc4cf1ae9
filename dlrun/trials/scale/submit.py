"""Submit the missing runs of a scaling study: one array per size, with exactly the spec's plan at that size."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dlrun.errors import Invalid
from dlrun.jobs.clusters import control
from dlrun.jobs.queue import status
from dlrun.jobs.queue.study import Size, Study, job_directory, jobs_of
from dlrun.jobs.records.jobs import Job
from dlrun.jobs.submission.prepare import spec_inputs
from dlrun.model.job import JobStatus, State
from dlrun.model.json_codec import to_plain
from dlrun.model.plan import Plan
from dlrun.model.spec import Spec
from dlrun.model.units import Duration
from dlrun.system.paths import working_in
from dlrun.system.transport.outage import Outage
from dlrun.system.transport.protocol import TransportFailed
from dlrun.trials.scale.measured import measured_runs
from dlrun.trials.scale.submitters import Submitter, submitter_of


def submitter(study: Study) -> Submitter:
    """What submits the runs of a study; raises Invalid for an unsuitable spec, and the errors of a login node."""
    if study.pool is not None and all(size.nodes > study.pool for size in study.sizes):
        raise Invalid(
            f"`--pool {study.pool}` has fewer nodes than each size of this study",
            help="use a larger one, or leave it out",
        )
    with _at(study):
        _check_spec(spec_inputs(study.spec, sets=study.sets, site=study.site).spec)
        return submitter_of(study)


def checked(study: Study, place: Submitter) -> Study:
    """The study with the constant batch of strong scaling; raises Invalid if the runs of a size cannot be planned."""
    with _at(study):
        # All sizes must be valid before the first is submitted.
        for size in study.sizes:
            place.plan(_sets(study, place, size, 1))
        if study.mode == "strong" and study.base_batch is None:
            base = place.plan(_sets(replace(study, mode="weak"), place, min(study.sizes), 1))
            if base.global_batch is None:
                raise Invalid(
                    "strong scaling keeps the global batch, which the spec does not set",
                    help="add `batch_per_rank:`, and pass `{{ batch_per_rank }}` to the program",
                )
            # The smallest size defines the batch that all others must be able to divide.
            study = replace(study, base_batch=base.global_batch)
            for size in study.sizes:
                place.plan(_sets(study, place, size, 1))
        _check_unchanged(study, place)
    return study


def uneven_threads(study: Study, place: Submitter) -> str | None:
    """A warning if the threads per rank differ between sizes, else None."""
    with _at(study):
        plans = {size: place.plan(_sets(study, place, size, 1)) for size in study.sizes}
    threads = {size: plan.request.threads for size, plan in plans.items()}
    known = {size: count for size, count in threads.items() if count is not None}
    if len(set(known.values())) < 2:
        return None
    most, least = max(known, key=known.__getitem__), min(known, key=known.__getitem__)
    return (
        f"each rank has {known[most]} cores at {most.words} and {known[least]} at {least.words}, so the speed-up compares "
        f"cores as well as ranks; `--set placement.threads={known[least]}` gives every rank the same number of threads"
    )


def _check_spec(spec: Spec) -> None:
    """Raise Invalid for a spec whose runs cannot be measured one by one."""
    if spec.sweep.grid or spec.sweep.zip or spec.sweep.list:
        raise Invalid("the spec has a sweep, but a study runs one command", help="leave out `sweep:`")
    if spec.chain or spec.on_failure.requeue:
        raise Invalid(
            "restarted runs cannot be measured",
            help="leave out `chain:` and `on_failure.requeue` for a study",
        )


def _check_unchanged(study: Study, place: Submitter) -> None:
    """Raise Invalid if the plan differs from that of earlier runs of the study."""
    for size, job in jobs_of(study)[:1]:
        new, old = place.plan(_sets(study, place, size, 1), like=job), job.plan()
        for name, now, before in _differences(_kernel(new), _kernel(old)):
            raise Invalid(
                f"the spec has changed since this study began: {name} was {_short(before)}, and is {_short(now)}",
                help="start another with `--out`, and compare them: "
                f"`dlrun scale compare {shlex.quote(str(study.directory))} NEW`",
            )


def _kernel(plan: Plan) -> dict[str, Any]:
    """The plan without the parts that may differ between runs: array, nodes of a pool, dependencies, reasons, metrics."""
    whole: dict[str, Any] = to_plain(plan)
    for name in ("version", "directives", "points", "decisions", "warnings", "cost", "metrics"):
        whole.pop(name)
    for name in ("array", "at_once", "after", "hold"):
        whole["request"].pop(name)
    if plan.pool is not None:
        whole["pool"].pop("nodes")
        whole["request"].pop("walltime")
    bare: dict[str, Any] = _without_reasons(whole)
    return bare


def _without_reasons(value: Any) -> Any:
    """The value without reasons: another version of dlrun may have other texts for the same plan."""
    if isinstance(value, list):
        return [_without_reasons(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    words = {"steps"} | ({"because", "rule", "origin", "source"} if "because" in value else set())
    return {name: _without_reasons(entry) for name, entry in value.items() if name not in words}


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 100 else f"{text[:97]}…"


def _differences(new: Any, old: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(new, dict) and isinstance(old, dict):
        for name in new.keys() | old.keys():
            yield from _differences(new.get(name), old.get(name), f"{path}.{name}" if path else name)
    elif new != old:
        yield path, new, old


def _sets(study: Study, place: Submitter, size: Size, runs: int, after: Sequence[Job] = ()) -> list[str]:
    """The `--set` arguments for a size; raises Invalid or InvalidFile if it is impossible."""
    sets = [*study.sets, f"resources.nodes={size.nodes}", "resources.ranks=auto"]
    if size.per_node:
        sets.append(f"resources.ranks_per_node={size.per_node}")
    points = ", ".join(f"{{run: {number}}}" for number in range(1, runs + 1))
    if study.pool is not None and size.nodes <= study.pool:
        at_once = min(study.pool // size.nodes, runs)
        walltime = place.plan(sets).request.walltime
        if walltime is not None:  # that of the spec is for one run
            sets.append(f"resources.walltime={Duration(walltime * -(-runs // at_once))}")
        sets += [f"sweep.list=[{points}]", f"sweep.nodes={at_once * size.nodes}"]
        if size.nodes > 1:
            sets += [f"sweep.nodes_per_point={size.nodes}", "resources.nodes=1"]
    elif runs > 1:
        sets += [f"sweep.list=[{points}]", "sweep.at_once=1"]
    sets += [f"after+=[{{job: '{job.job_id}', when: any}}]" for job in after]
    if study.mode == "strong" and study.base_batch is not None:
        ranks = place.plan(sets).request.ranks
        if study.base_batch % ranks:
            raise Invalid(
                f"strong scaling keeps the global batch of {study.base_batch}, which {ranks} ranks cannot share evenly",
                help=f"leave out {size.words}, or choose a `batch_per_rank` that all sizes divide",
            )
        sets.append(f"batch_per_rank={study.base_batch // ranks}")
    return sets


def carry_out(
    study: Study,
    place: Submitter,
    *,
    at_once: bool,
    wait: bool,
    notice: Callable[[str], None],
    step: Callable[[int, int], None] = lambda _done, _all: None,
) -> None:
    """Submit the missing runs, and with `wait` wait for all; step(ended, all): called with numbers of runs.

    On this machine sizes run one after the other, so the call waits for all but the last. In a queue each size depends on the
    previous one, unless `at_once`; the runs of a size are serial, so that they do not disturb each other.
    """
    with _at(study):
        _resume(study, place, notice)
    runs = measured_runs(study)
    open_ = list({run.job.directory: run.job for run in runs if not run.result.state.final}.values())
    before = sum(run.result.state is State.COMPLETED for run in runs)
    watched = Watched(len(study.sizes) * study.repeat, before, step)
    for size in study.sizes:
        missing = study.repeat - sum(run.counts for run in runs if run.size == size)
        if missing <= 0:
            continue
        with _at(study):
            if not place.waits:
                _wait_for(open_, notice, watched)
                open_ = []
            sets = _sets(study, place, size, missing, open_[-1:] if place.waits and not at_once else [])
            job = place.submit(sets, job_directory(study, size), notice)
        notice(f"submitted {size.words}: {missing} run{'s' if missing > 1 else ''}, job {job.job_id}")
        open_ = [*open_, job]
    if wait:
        _wait_for(open_, notice, watched)


def _resume(study: Study, place: Submitter, notice: Callable[[str], None]) -> None:
    """Resume interrupted submissions to a login node."""
    for size, job in jobs_of(study):
        if job.resumable:
            done = place.resume(_sets(study, place, size, 1), job, notice)
            notice(f"submitted {size.words}: job {done.job_id}")


@dataclass(slots=True)
class Watched:
    """Progress: ended runs of the study's total."""

    total: int
    done: int
    step: Callable[[int, int], None]

    def ended(self, count: int, *, whole: bool) -> None:
        """Report `count` ended runs of the watched jobs; whole: all of them have ended."""
        self.step(min(self.done + count, self.total), self.total)
        if whole:
            self.done += count


def _wait_for(waiting: Sequence[Job], notice: Callable[[str], None], watched: Watched) -> None:
    """Wait for the end of jobs, and report each."""
    left = list(waiting)
    over = 0
    pauses = [control.of(job.scheduler).PAUSES for job in left]
    pause, longest = (
        max((first for first, _ in pauses), default=0.0),
        max((last for _, last in pauses), default=0.0),
    )
    outage = Outage()
    while left:
        states: Mapping[Path, Sequence[JobStatus]] = {}
        try:
            states = status.of(left)
            outage.answered()
        except TransportFailed as error:
            outage.failed(error)
        for job in list(left):
            runs = states.get(job.directory)
            if runs and all(run.state.final for run in runs):
                left.remove(job)
                over += len(runs)
                good = sum(run.state == "completed" for run in runs)
                notice(f"{job.directory.name} has ended: {good} of {len(runs)} runs completed")
        watched.ended(
            over + sum(run.state.final for job in left for run in states.get(job.directory, ())),
            whole=not left,
        )
        if left:
            time.sleep(pause)
            pause = min(pause * 1.5, longest)


def _at(study: Study) -> AbstractContextManager[None]:
    """Work in the directory where the study was started; raises Invalid."""
    return working_in(study.origin, "the study")
