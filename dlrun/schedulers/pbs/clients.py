"""Client commands common to OpenPBS and Torque: job ids, qdel, qhold, qrls and their rejections."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dlrun.schedulers.refusals import printed_id

REFUSALS = {
    r"^perl: (error|fatal)": (
        "the PBS clients here are wrappers of Slurm, which does not answer: choose another site with `--site`, "
        "or submit on its login node"
    ),
    r"Unknown queue|illegally formed destination": (
        "name a queue under resources.partition; `qstat -Q` lists them"
    ),
    r"Invalid request \d+\[\d+\]": "PBS holds and releases only whole arrays: give the job without a point",
    r"No default queue": "name a queue under resources.partition; this server has no default",
    r"Unknown resource|Resource invalid in \"select\"": (
        "the server does not know a requested resource: see resources.options, and scheduler.gpus and "
        "scheduler.directives in the site profile"
    ),
    r"violates queue and/or server resource limits|exceeds? (the )?(queue|allowable)|MSG=cannot satisfy": (
        "the request exceeds a limit of the queue: shorten resources.walltime or request fewer nodes; "
        "`qstat -Qf QUEUE` shows its limits"
    ),
    r"Invalid Account|[Ii]nvalid project|not a member of project": (
        "name a project that you may use under resources.account"
    ),
    r"Maximum number of jobs|would exceed .* limit": (
        "you have reached the queue's limit of jobs: wait until some end"
    ),
    r"Invalid Job Dependency|did not satisfy dependency": (
        "a job under `after` is unknown to PBS, or ended such that this one can never start"
    ),
    r"Array job exceeds": "the sweep has more points than the server's max_array_size",
    r"cannot submit non-rerunable Array": "leave `-r n` out of the directives: PBS accepts only rerunnable arrays",
    r"-lresource=.* cannot be used with|Cannot be used with select": (
        "leave old-style resources out of resources.options and scheduler.directives: dlrun requests them by `-l select`"
    ),
    r"Unauthorized Request|Access (from host )?(is )?denied|not authorized": (
        "the queue or server does not accept your jobs from this host: submit on a login node, and check who may use the queue"
    ),
    r"Bad UID|Bad GID": "your user or group is unknown on the compute nodes, or PBS does not accept jobs of root",
    r"could not connect to MOM": (
        "the server does not reach the first node of the job: `qdel -W force` with the job's id ends the job without it"
    ),
    r"cannot connect to server|Connection refused|No route|Communication failure|[Cc]ould not connect": (
        "PBS does not answer: try again in a minute; `qstat -B` shows whether it is up"
    ),
    r"illegal -N|name is too long": "use a short name of letters and digits",
    r"illegal -|directive error|unmatched|invalid option": (
        "the site profile or the spec has a directive that this version of PBS does not support"
    ),
}
"""Regular expressions for what the clients print, with advice; from pbs_messages.c and qsub.c of OpenPBS 23.06."""


ID = r"[0-9]{1,12}(?:\[\])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,253}[A-Za-z0-9])?)?"
"""Regular expression of job ids: `123.server`, `123[].server`."""


def submitted(stdout: str) -> str:
    """The job id that qsub printed (`123.server`, `123[].server`), other lines are ignored."""
    return printed_id("qsub", f"({ID})", stdout, "qstat -u $USER")


def cluster(text: str) -> str | None:
    """The server of a job id such as `123[].server`, given alone or in the output of qsub."""
    match = re.search(r"^\d+(?:\[\d*\])?\.([\w.-]+)\s*$", text, re.MULTILINE)
    return match[1] if match else None


def identify() -> Sequence[str]:
    """Arguments that print the attributes of the default server."""
    return ("qstat", "-B", "-f")


def identified(stdout: str) -> str | None:
    """The server's name in the output of `qstat -B -f`."""
    match = re.search(r"^Server:\s*(\S+)", stdout, re.MULTILINE)
    return match[1] if match else None


def task_id(job_id: str, task: int) -> str:
    """The id of one array task: `123[].server` -> `123[4].server`."""
    number, _, server = job_id.partition("[]")
    return f"{number}[{task}]{server}"


def cancel(job_ids: Sequence[str]) -> Sequence[str]:
    """Arguments that cancel jobs."""
    return ("qdel", *job_ids)


def hold(job_ids: Sequence[str]) -> Sequence[str]:
    """Arguments that hold jobs."""
    return ("qhold", *job_ids)


def release(job_ids: Sequence[str]) -> Sequence[str]:
    """Arguments that release held jobs."""
    return ("qrls", *job_ids)


def restarts(attribute: str) -> str:
    """Shell expansion for the number of earlier starts of this job, which PBS reports only through qstat (lib/pbs.sh)."""
    return f"$(dlrun_pbs_restarts {attribute})"
