"""This machine without a scheduler: no directives and no queue; `dlrun.effects.clusters.local` starts and watches jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from dlrun.model.job import JobStatus
from dlrun.model.origin import Origin
from dlrun.model.plan import Directive, Request
from dlrun.model.site import SchedulerSite
from dlrun.model.text import Shell
from dlrun.schedulers.directive_list import DirectiveList

NAME = "local"
PREFIX = ""
CLIENT = "bash"
JOB_ID = Shell("${DLRUN_LOCAL_JOB:-$(dlrun_this_process)}")
ID = r"[1-9][0-9]{0,9}\.[0-9]{1,20}"
ARRAY_INDEX = Shell("${DLRUN_LOCAL_INDEX:-}")
LIBRARY: tuple[str, ...] = ()
RESTARTS = Shell("${DLRUN_LOCAL_RESTART:-0}")
HOSTS = "dlrun_this_host"
REQUEUE = 'touch "$DLRUN_RUN_DIR/.again"'
HIDES_ENVIRONMENT = True
SIGNALS_EARLY = False
IDS_NAME_CLUSTER = True
WRITES_IN_PLACE = True
TELLS_OF_LOST_NODES = True  # there is one node
ON_THIS_MACHINE = True
STEPS = None
LAUNCHER = "local"
CLUSTER_KEY: Literal["pbs_server"] = "pbs_server"
GPUS: Literal["ngpus"] = "ngpus"
ACCOUNT_OPTION = None
FEATURES = False
WHOLE_MEMORY = False
NETWORK = None
EXCLUDE = None
EXCLUDE_REQUEUED = None
NO_EXCLUDE = ""
ALLOCATION = None


def directives(
    request: Request,
    site: SchedulerSite,
    output: str,
    origins: Mapping[str, Origin] | None = None,
) -> Sequence[Directive]:
    """None: nobody reads them; raises InvalidFile for what needs a queue."""
    draft = DirectiveList(PREFIX, request, site, origins or {})
    if request.hold:
        draft.problem("jobs on this machine start at once", "leave out hold", "hold")
    if request.after:
        draft.problem("jobs on this machine cannot wait for others", "leave out after", "after")
    return draft.finish()


def array(points: int, at_once: int | None) -> str:
    """None: points run one after the other."""
    return ""


def submit(script: str, *, check: bool = False) -> Sequence[str]:
    """Arguments that run a script here; there is nobody who could check it."""
    return ("bash", script)


def submitted(stdout: str) -> str:
    """What was printed is the id."""
    return stdout.strip()


def cluster(text: str) -> str | None:
    """None: the machine's name is in the job's record."""
    return None


def identify() -> Sequence[str]:
    """No arguments: `dlrun.effects` knows the name of this machine."""
    return ()


def identified(stdout: str) -> str | None:
    """None: nobody is asked."""
    return None


def estimate(output: str) -> str | None:
    """None: jobs start at once."""
    return None


def queue(job_ids: Sequence[str]) -> Sequence[str]:
    """No arguments: there is no queue."""
    return ()


def parse_queue(stdout: str) -> Sequence[JobStatus]:
    """Nothing."""
    return ()


def history(job_ids: Sequence[str]) -> Sequence[str] | None:
    """None: there is no accounting."""
    return None


def parse_history(stdout: str) -> Sequence[JobStatus]:
    """Nothing."""
    return ()


def knows_nothing(stderr: str, code: int) -> bool:
    """True: nobody is asked."""
    return True


def task_id(job_id: str, task: int) -> str:
    """The job's own id: `dlrun.effects.clusters.local` knows its points by their directories."""
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
    """None: nobody refuses."""
    return None


def accounts(stderr: str, user: str) -> Sequence[str]:
    """None: nobody is paid."""
    return ()
