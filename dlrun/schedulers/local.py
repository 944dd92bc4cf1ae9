"""This machine without a scheduler: no directives, no queue; `dlrun.effects.clusters.local` starts and supervises jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from dlrun.model.job import JobStatus
from dlrun.model.origin import Origin
from dlrun.model.plan import Directive, Request
from dlrun.model.site import SchedulerSite
from dlrun.model.text import Shell
from dlrun.schedulers.directive_list import DirectiveList
from dlrun.schedulers.protocol import Probe

NAME = "local"
PREFIX = ""
CLIENT = "bash"
BY_HAND = "bash"
JOB_ID = Shell("${DLRUN_LOCAL_JOB:-$(dlrun_this_process)}")
ID = r"[1-9][0-9]{0,9}\.[0-9]{1,20}"
ARRAY_INDEX = Shell("${DLRUN_LOCAL_INDEX:-}")
LIBRARY: tuple[str, ...] = ()
RESTARTS = Shell("${DLRUN_LOCAL_RESTART:-0}")
HOSTS = "dlrun_this_host"
REQUEUE = 'touch "$DLRUN_RUN_DIR/.again"'
HIDES_ENVIRONMENT = True
SIGNALS_EARLY = False
IDS_NAME_CLUSTER = False
WRITES_IN_PLACE = True
REPORTS_LOST_NODES = True  # there is one node
ON_THIS_MACHINE = True
MOST_NODES: int | None = 1
WHOLE_NODES = True
FINDER = "find_none"
STEPS = None
LAUNCHER = "local"
CLUSTER_KEY: Literal["pbs_server"] = "pbs_server"
GPUS: Literal["ngpus"] = "ngpus"
LISTED_GPUS: Literal["ngpus"] = "ngpus"
ACCOUNT_OPTION = None
HISTORY_DELAY = 0
QUESTIONS: Mapping[str, str] = {}
FEATURES = False
WHOLE_MEMORY = False
NETWORK = None
EXCLUDE = None
EXCLUDE_REQUEUED = None
NO_EXCLUDE = ""
ALLOCATION = None
ACCEPTANCE = None


def directives(
    request: Request,
    site: SchedulerSite,
    output: str,
    origins: Mapping[str, Origin] | None = None,
) -> Sequence[Directive]:
    """Empty; raises InvalidFile for requests that need a queue (`hold`, `after`)."""
    draft = DirectiveList(PREFIX, request, site, origins or {})
    if request.hold:
        draft.problem("jobs on this machine start at once", "leave out hold", "hold")
    if request.after:
        draft.problem("jobs on this machine cannot wait for others", "leave out after", "after")
    return draft.finish()


def array(points: int, at_once: int | None) -> str:
    """Empty: points run one after the other."""
    return ""


def submit(
    script: str, *, check: bool = False, points: int | None = None, at_once: int | None = None
) -> Sequence[str]:
    """Arguments that run a script, or with `check` only parse it (`bash -n`)."""
    return ("bash", "-n", script) if check else ("bash", script)


def submitted(stdout: str) -> str:
    """The printed text is the job id."""
    return stdout.strip()


def cluster(text: str) -> str | None:
    """None: the machine's name is in the job's record."""
    return None


def identify() -> Sequence[str]:
    """Empty: the host name identifies this machine."""
    return ()


def identified(stdout: str) -> str | None:
    """None: there is no scheduler to ask."""
    return None


def estimate(output: str) -> str | None:
    """Constant: jobs start at once."""
    return "at once, on this machine"


def queue(job_ids: Sequence[str]) -> Sequence[str]:
    """No arguments: there is no queue."""
    return ()


def parse_queue(stdout: str) -> Sequence[JobStatus]:
    """Empty: there is no queue."""
    return ()


def history(job_ids: Sequence[str]) -> Sequence[str] | None:
    """None: there is no accounting."""
    return None


def parse_history(stdout: str) -> Sequence[JobStatus]:
    """Empty: there is no accounting."""
    return ()


def probe(asked: Probe) -> Sequence[str]:
    """Empty: this machine is the only node and is probed directly."""
    return ()


def unknown_jobs(stderr: str, code: int) -> bool:
    """True: there is no scheduler to ask."""
    return True


def tasks(job_id: str) -> Sequence[str]:
    """Empty: points are tasks of one job."""
    return ()


def task_id(job_id: str, task: int) -> str:
    """The job's id: `dlrun.effects.clusters.local` identifies points by their directories."""
    return job_id


def cancel(job_ids: Sequence[str]) -> Sequence[str]:
    """No arguments: `dlrun.effects.clusters.local` ends jobs."""
    return ()


def hold(job_ids: Sequence[str]) -> Sequence[str]:
    """No arguments: there is no queue."""
    return ()


def release(job_ids: Sequence[str]) -> Sequence[str]:
    """No arguments: there is no queue."""
    return ()


def advice(stderr: str) -> str | None:
    """None: no submission is rejected."""
    return None


def accounts(stderr: str, user: str) -> Sequence[str]:
    """Empty: there are no accounts."""
    return ()
