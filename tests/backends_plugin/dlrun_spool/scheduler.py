"""The back end of `spool`: what `dlrun.schedulers.protocol.Scheduler` asks for, and nothing else of dlrun."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dlrun.errors import OperationFailed
from dlrun.model.job import JobStatus, State
from dlrun.model.origin import Origin
from dlrun.model.plan import Directive, Request
from dlrun.model.site import SchedulerSite
from dlrun.model.text import Shell

NAME = "spool"
PREFIX = "#SPOOL"
CLIENT = "spool"
BY_HAND = "spool submit"
ID = r"[0-9]+"
JOB_ID = Shell("$SPOOL_JOB_ID")
HOSTS = "hostname"
HIDES_ENVIRONMENT = True
WRITES_IN_PLACE = True
REPORTS_LOST_NODES = True
MOST_NODES: int | None = 1
WHOLE_NODES = True
LAUNCHER = "forkrun"
GPUS = "ngpus"
NO_EXCLUDE = "spool has one node"

_STATES = {"RUNNING": State.RUNNING, "CANCELLED": State.CANCELLED}


def directives(
    request: Request, site: SchedulerSite, output: str, origins: Mapping[str, Origin] | None = None
) -> Sequence[Directive]:
    """Where the log goes, and how long the job may run."""
    found = [Directive(text=f"output={output}", because="the job's log")]
    if request.walltime is not None:
        found.append(Directive(text=f"seconds={int(request.walltime)}", because="walltime"))
    return found


def submit(
    script: str, *, check: bool = False, points: int | None = None, at_once: int | None = None
) -> Sequence[str]:
    """`spool submit`."""
    return ("spool", "submit", script)


def submitted(stdout: str) -> str:
    """The number after `spooled`."""
    word, _, number = stdout.strip().partition(" ")
    if word != "spooled":
        message = "spool printed no job id"
        raise OperationFailed(message)
    return number


def queue(job_ids: Sequence[str]) -> Sequence[str]:
    """`spool status`."""
    return ("spool", "status", *job_ids)


def parse_queue(stdout: str) -> Sequence[JobStatus]:
    """A job a line."""
    found = []
    for line in stdout.splitlines():
        number, state, *code = line.split()
        ended = State.COMPLETED if code == ["0"] else State.FAILED
        found.append(
            JobStatus(
                job_id=number, state=_STATES.get(state, ended), exit_code=int(code[0]) if code else None
            )
        )
    return found


def cancel(job_ids: Sequence[str]) -> Sequence[str]:
    """`spool cancel`."""
    return ("spool", "cancel", *job_ids)
