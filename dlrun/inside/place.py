"""Where a running job can be entered: the node of a rank, or a node by its name."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from dlrun.errors import DlrunError, Invalid
from dlrun.jobs.queue import status
from dlrun.jobs.queue.selection import Selection
from dlrun.jobs.records import jobs as records
from dlrun.jobs.records.jobs import Job
from dlrun.model.job import JobStatus, State
from dlrun.model.nearest import nearest
from dlrun.model.record import record
from dlrun.system.paths import text_of
from dlrun.usage.job import copy_records
from dlrun.usage.samples import recordings

_MOST = 1 << 22
"""Maximum bytes of a list of hosts: 65,536 names of 63 characters."""


class NotRunning(Invalid):
    """The run has not started, or has ended (`ended`)."""

    def __init__(self, message: str, *, ended: bool, help: str | None = None) -> None:
        super().__init__(message, help=help)
        self.ended = ended


@record(frozen=True, slots=True, kw_only=True)
class Place:
    """A node of a running job.

    directory: the run's, here; run: the same as the job knows it; rank: None for the node itself.
    """

    job: Job
    task: int | None
    host: str
    directory: Path
    run: str
    rank: int | None


def place(chosen: Selection, rank: int | None, node: str | None) -> Place:
    """The place of a rank (default: 0) or node of one run.

    Raises NotRunning if it does not run, Invalid for a rank or node that it does not have, OperationFailed if its scheduler
    does not answer.
    """
    if rank is not None and node is not None:
        raise Invalid("`--rank` and `--node` exclude each other", help="a rank has its node")
    job = records.latest(chosen.job)
    task = chosen.tasks[0] if chosen.tasks else None
    if job.array is not None and (chosen.tasks is None or len(chosen.tasks) != 1):
        raise Invalid(
            "a job has to be entered in one run", help=f"name a point, such as `{job.directory.name}:0`"
        )
    _running(job, task)
    with suppress(DlrunError):  # without usage records, the list of hosts has the nodes
        copy_records(job)
    run = job.run_directory(task)
    where = {recording.node: set(recording.cores) for recording in recordings(run, latest=True)}
    nodes = [*dict.fromkeys(text_of(run / "hosts", _MOST).split())] or list(where)
    if not nodes:
        raise Invalid(
            f"the nodes of job `{job.directory.name}` are not known yet",
            help="try again in a few seconds, once its ranks run",
        )
    of_job = job.remote.directory if job.remote is not None else str(job.directory)
    within = of_job if job.array is None else f"{of_job}/points/{task or 0}"
    if node is not None:
        return Place(job=job, task=task, directory=run, host=_named(node, nodes), run=within, rank=rank)
    number = rank or 0
    plan = job.plan()
    if number >= plan.request.ranks:
        raise Invalid(f"the job has no rank {number}", help=f"its ranks are 0 to {plan.request.ranks - 1}")
    known = (host for host, ranks in where.items() if f"rank-{number}" in ranks)
    planned = nodes[min(number // plan.request.ranks_per_node, len(nodes) - 1)]
    return Place(job=job, task=task, directory=run, host=next(known, planned), run=within, rank=number)


def _running(job: Job, task: int | None) -> None:
    name = job.directory.name if task is None else f"{job.directory.name}:{task}"
    if job.job_id is None:
        raise NotRunning(f"job `{name}` was never submitted", ended=True)
    states = status.of([job])[job.directory]
    shown: JobStatus | None = states[task or 0] if (task or 0) < len(states) else None
    if shown is not None and shown.state.final:
        raise NotRunning(
            f"job `{name}` has ended: {shown.state}",
            ended=True,
            help=f"`dlrun logs {name}` shows what its ranks wrote",
        )
    if shown is not None and shown.state in (State.PENDING, State.HELD):
        because = f": {shown.reason}" if shown.reason else ""
        raise NotRunning(
            f"job `{name}` has not started{because}",
            ended=False,
            help=f"`dlrun status {name}` shows when it does",
        )


def _named(node: str, nodes: list[str]) -> str:
    """A node of the job by its name, with or without its domain."""
    for host in nodes:
        if node in (host, host.partition(".")[0]):
            return host
    near = nearest(node, nodes)
    listed = ", ".join(nodes[:8]) + (", …" if len(nodes) > 8 else "")
    raise Invalid(
        f"the job has no node `{node}`",
        help=f"a node with a similar name: `{near}`" if near else f"its nodes: {listed}",
    )
