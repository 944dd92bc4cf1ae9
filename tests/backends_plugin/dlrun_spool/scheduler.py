"""The back end of `spool`: what `dlrun.schedulers.protocol.Scheduler` asks for, and nothing else of dlrun."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dlrun.errors import OperationFailed
from dlrun.model.job import JobStatus, State
from dlrun.model.origin import Origin
from dlrun.model.plan import Directive, Request
from dlrun.model.site import SchedulerSite
from dlrun.model.text import Shell
from dlrun.schedulers.protocol import Probe

NAME = "spool"
PREFIX = "#SPOOL"
CLIENT = "spool"
BY_HAND = "spool submit"
ID = r"[0-9]+"
JOB_ID = Shell("$SPOOL_JOB_ID")
ARRAY_INDEX = Shell("")
RESTARTS = Shell("0")
HOSTS = "hostname"
REQUEUE = None
HIDES_ENVIRONMENT = True
SIGNALS_EARLY = False
IDS_NAME_CLUSTER = False
WRITES_IN_PLACE = True
REPORTS_LOST_NODES = True
ON_THIS_MACHINE = False
MOST_NODES: int | None = 1
WHOLE_NODES = True
FINDER = "find_none"
STEPS = None
LAUNCHER = "forkrun"
CLUSTER_KEY = "cluster_name"
GPUS = "ngpus"
LISTED_GPUS = "ngpus"
ACCOUNT_OPTION = None
HISTORY_DELAY = 0
QUESTIONS: dict[str, str] = {}
FEATURES = False
WHOLE_MEMORY = False
NETWORK = None
EXCLUDE = None
EXCLUDE_REQUEUED = None
LIBRARY: tuple[str, ...] = ()
NO_EXCLUDE = "spool has one node"
ALLOCATION = None
ACCEPTANCE = None

_STATES = {"RUNNING": State.RUNNING, "CANCELLED": State.CANCELLED}


def directives(
    request: Request, site: SchedulerSite, output: str, origins: Mapping[str, Origin] | None = None
) -> Sequence[Directive]:
    """Where the log goes, and how long the job may run."""
    found = [Directive(text=f"output={output}", because="the job's log")]
    if request.walltime is not None:
        found.append(Directive(text=f"seconds={int(request.walltime)}", because="walltime"))
    return found


def array(points: int, at_once: int | None) -> str:
    """None: there are no arrays."""
    return ""


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


def cluster(text: str) -> str | None:
    """None: ids do not name it."""
    return None


def identify() -> Sequence[str]:
    """There is one."""
    return ()


def identified(stdout: str) -> str | None:
    """None."""
    return None


def estimate(output: str) -> str | None:
    """None."""
    return None


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


def history(job_ids: Sequence[str]) -> Sequence[str] | None:
    """None: its queue forgets nothing."""
    return None


def parse_history(stdout: str) -> Sequence[JobStatus]:
    """Nothing."""
    return ()


def probe(asked: Probe) -> Sequence[str]:
    """None: there is one node, this one."""
    return ()


def unknown_jobs(stderr: str, code: int) -> bool:
    """False."""
    return False


def tasks(job_id: str) -> Sequence[str]:
    """None: points are tasks of one job."""
    return ()


def task_id(job_id: str, task: int) -> str:
    """There are no arrays."""
    return job_id


def cancel(job_ids: Sequence[str]) -> Sequence[str]:
    """`spool cancel`."""
    return ("spool", "cancel", *job_ids)


def hold(job_ids: Sequence[str]) -> Sequence[str]:
    """Nothing: jobs start at once."""
    return ()


def release(job_ids: Sequence[str]) -> Sequence[str]:
    """Nothing."""
    return ()


def advice(stderr: str) -> str | None:
    """None."""
    return None


def accounts(stderr: str, user: str) -> Sequence[str]:
    """None."""
    return ()
