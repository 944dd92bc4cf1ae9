"""This machine without a scheduler: no directives, no queue; `dlrun.jobs.clusters.local` starts and supervises jobs."""

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
RESTARTS = Shell("${DLRUN_LOCAL_RESTART:-0}")
HOSTS = "dlrun_this_host"
REQUEUE = 'touch "$DLRUN_RUN_DIR/.again"'
HIDES_ENVIRONMENT = True
WRITES_IN_PLACE = True
REPORTS_LOST_NODES = True  # there is one node
ON_THIS_MACHINE = True
MOST_NODES: int | None = 1
WHOLE_NODES = True
POINTS_INSIDE = True
ROLES_INSIDE = True
LAUNCHER = "local"
CLUSTER_KEY: Literal["pbs_server"] = "pbs_server"
GPUS: Literal["ngpus"] = "ngpus"


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


def submit(
    script: str, *, check: bool = False, points: int | None = None, at_once: int | None = None
) -> Sequence[str]:
    """Arguments that run a script, or with `check` only parse it (`bash -n`)."""
    return ("bash", "-n", script) if check else ("bash", script)


def submitted(stdout: str) -> str:
    """The printed text is the job id."""
    return stdout.strip()


def estimate(output: str) -> str | None:
    """Constant: jobs start at once."""
    return "at once, on this machine"


def queue(job_ids: Sequence[str]) -> Sequence[str]:
    """No arguments: there is no queue."""
    return ()


def parse_queue(stdout: str) -> Sequence[JobStatus]:
    """Empty: there is no queue."""
    return ()


def unknown_jobs(stderr: str, code: int) -> bool:
    """True: there is no scheduler to ask."""
    return True


def cancel(job_ids: Sequence[str]) -> Sequence[str]:
    """No arguments: `dlrun.jobs.clusters.local` ends jobs."""
    return ()
