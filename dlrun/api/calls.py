"""The calls that begin: plan, submit and run a spec, and find jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlrun.api.job import Job
from dlrun.api.planned import Planned
from dlrun.api.spec import arguments, read
from dlrun.jobs.queue.recover import completed
from dlrun.jobs.records import jobs as records
from dlrun.jobs.remote import submit as remote
from dlrun.jobs.remote.destination import Destination, login_of
from dlrun.jobs.running import start
from dlrun.jobs.running.ending import ending
from dlrun.jobs.submission.prepare import prepare
from dlrun.jobs.submission.submit import submit as submit_here
from dlrun.system.inputs.spec import Inputs

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def plan(
    spec: str | Path | Mapping[str, Any] | Sequence[str] | DataclassInstance,
    *,
    site: str | Path | None = None,
    **settings: Any,
) -> Planned:
    """The plan of a spec: a path, the keys as a mapping or a dataclass, or the words of a command.

    site: name or file of a site profile; settings: keys of the spec, with `__` for a dot (`resources__nodes=2`).
    Raises InvalidFile with all problems.
    """
    return _planned(read(spec, site, arguments(settings)))


def submit(
    spec: str | Path | Mapping[str, Any] | Sequence[str] | DataclassInstance | Planned,
    *,
    site: str | Path | None = None,
    host: str | None = None,
    directory: Path | None = None,
    **settings: Any,
) -> Job:
    """Submit a job, as `dlrun submit`; spec, site and settings as for `plan`, or a plan.

    host: login node, for a submission over ssh; directory: the job directory to create. Raises InvalidFile for an invalid spec,
    OperationFailed with the scheduler's reason.
    """
    inputs = spec.inputs if isinstance(spec, Planned) else read(spec, site, arguments(settings))
    to = Destination(host=host) if host else login_of(inputs)
    if to is not None:
        to = to.by(None, str(directory) if directory else None)
        return Job(remote.submit(inputs, to, notice=_quiet))
    planned = spec if isinstance(spec, Planned) else _planned(inputs)
    return Job(submit_here(planned.plan, inputs, directory=directory, notice=_quiet).job)


def run(
    spec: str | Path | Mapping[str, Any] | Sequence[str] | DataclassInstance,
    *,
    site: str | Path | None = None,
    directory: Path | None = None,
    **settings: Any,
) -> Job:
    """Run a job in the allocation of this process, or on this machine, to its end, as `dlrun run`.

    An interrupt ends all ranks. Raises NoAllocation outside of an allocation of the site's scheduler, Invalid for one that is
    too small; a training that fails raises nothing: see `Job.exit_code`.
    """
    here = start.planned(lambda sets: read(spec, site, sets), arguments(settings))
    job = Job(start.start(here.plan, here.inputs, directory=directory, notice=_quiet))
    with ending(job.record, _quiet) as received:
        job.wait()
    if received:
        raise KeyboardInterrupt
    return job


def _planned(inputs: Inputs) -> Planned:
    return Planned(plan=prepare(inputs.path, inputs=inputs).plan, inputs=inputs)


def jobs(limit: int | None = None) -> list[Job]:
    """The jobs submitted from this machine, newest first; at most `limit`."""
    return [Job(completed(record)) for record in islice(records.all_jobs(records.home()), limit)]


def _quiet(_message: str) -> None:
    """What the commands print while they work is not printed here."""
