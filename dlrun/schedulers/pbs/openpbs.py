"""OpenPBS and PBS Professional: qsub, qstat, qdel, qhold and qrls."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from dlrun.errors import Invalid
from dlrun.model.job import JobStatus, State
from dlrun.model.text import Shell, digits
from dlrun.schedulers.pbs import acceptance, accounting, clients, openpbs_directives, qstat
from dlrun.schedulers.pbs.amounts import seconds
from dlrun.schedulers.pbs.directives import PREFIX
from dlrun.schedulers.pbs.options import OPENPBS as OPTIONS
from dlrun.schedulers.pbs.states import job_status
from dlrun.schedulers.protocol import Allocation, Probe
from dlrun.schedulers.queue_rules import QueueRules
from dlrun.schedulers.refusals import every_line_matches
from dlrun.schedulers.taken import Taken

__all__ = ["OPTIONS", "PREFIX", "accounting"]

NAME = "openpbs"
ID = clients.ID
array, directives = openpbs_directives.array, openpbs_directives.directives
submitted, task_id, REFUSALS = clients.submitted, clients.task_id, clients.REFUSALS
cluster, identify, identified = clients.cluster, clients.identify, clients.identified
cancel, hold, release = clients.cancel, clients.hold, clients.release
CLIENT = "qsub"
# The task id `12[3].server` becomes the array id `12[].server`: dlrun records one id for all tasks.
JOB_ID = Shell(r"${PBS_JOBID/\[*\]/[]}")
ARRAY_INDEX = Shell("${PBS_ARRAY_INDEX:-}")
LIBRARY: tuple[str, ...] = ("pbs", "resubmit")
RESTARTS = Shell(clients.restarts("run_count"))
# PBS_NODEFILE has one line per MPI process (`mpiprocs`), not per host.
HOSTS = """awk '!seen[$0]++' "$PBS_NODEFILE\""""
IDS_NAME_CLUSTER = True
WRITES_IN_PLACE = True
# qsub(1B): in `-o` this stands for the index of a subjob, and the path that qsub makes begins with the directory's.
PATTERNS = r"\^array_index\^|\n"
FINDER = "find_pbs"
CLUSTER_KEY: Literal["pbs_server"] = "pbs_server"
GPUS: Literal["ngpus"] = "ngpus"
ACCOUNT_OPTION = "-A"
ALLOCATION = Allocation(
    start="qsub -I",
    job_id="PBS_JOBID",
    hosts="PBS_NODEFILE",
    size="-l select={nodes}:ncpus={node_cpus}:mpiprocs={ranks}",
    gpus=":ngpus={gpus}",
)
ACCEPTANCE = acceptance
NO_EXCLUDE = (
    "PBS has no option to exclude nodes (OpenPBS's design proposal `node_filter` is stalled), so the job itself does not "
    "use such a node if it is granted"
)
"""pbs_resources(7B), `select`; project wiki, pages 51249415 and 52108208 ("users submit jobs with a node-filter"; stalled)."""

_NODE_LOST = (State.NODE_FAILED, "PBS lost the connection to a node")
_NODE_RESTARTED = (State.NODE_FAILED, "PBS was restarted on the node")
_HOOK = (State.CANCELLED_BY_ADMIN, "deleted by a hook of the site")
_CPUS = (State.FAILED, "it used more CPUs than requested")
_CODES = {
    -1: (State.FAILED, "it could not be started"),
    -2: (State.FAILED, "it could not be started"),
    -3: (State.FAILED, "it could not be started after all retries"),
    -4: _NODE_RESTARTED,
    -5: _NODE_RESTARTED,
    -6: _NODE_RESTARTED,
    -10: (State.FAILED, "the user or group is unknown on the node"),
    -14: _NODE_LOST,
    -17: _HOOK,
    -19: _HOOK,
    -20: _NODE_LOST,
    -23: (State.FAILED, "it has no Kerberos credentials"),
    -24: _CPUS,
    -25: _CPUS,
    -26: (State.OUT_OF_MEMORY, "it used more virtual memory than requested"),
    -27: (State.OUT_OF_MEMORY, "it used more memory than requested"),
    -28: (State.TIMED_OUT, "its CPU time limit was exceeded"),
    -29: (State.TIMED_OUT, "the walltime was exceeded"),
    -30: (State.NODE_FAILED, "a node could not join the job"),
}
"""JOB_EXEC_* in job.h of OpenPBS 23.06."""


def submit(
    script: str, *, check: bool = False, points: int | None = None, at_once: int | None = None
) -> Sequence[str]:
    """Arguments that submit a script; raises Invalid for a check, which qsub does not have (see `ACCEPTANCE`)."""
    if check:
        raise Invalid("qsub cannot check a job without submitting it")
    return ("qsub", script)


def queue(job_ids: Sequence[str]) -> Sequence[str]:
    """One qstat for any number of jobs, with one entry per array task."""
    return ("qstat", "-t", "-f", *_form(job_ids), *job_ids)


def _form(job_ids: Sequence[str]) -> Sequence[str]:
    """JSON for one job, text for several: OpenPBS up to 23.06 prints only the first of several jobs as JSON."""
    return () if len(job_ids) > 1 else ("-F", "json")


def history(job_ids: Sequence[str]) -> Sequence[str] | None:
    """One qstat for ended jobs (`-x`), where the server keeps a job history."""
    return ("qstat", "-x", "-t", "-f", *_form(job_ids), *job_ids)


def parse_queue(stdout: str) -> Sequence[JobStatus]:
    """The jobs in the output of qstat. Pending tasks of a held array are held, which PBS reports only for the array."""
    read = qstat.from_json if stdout.lstrip().startswith("{") else qstat.from_text
    found = [job_status(identity, attributes, _CODES) for identity, attributes in read(stdout).items()]
    held = {status.job_id for status in found if status.task is None and status.state is State.HELD}
    return [
        replace(status, state=State.HELD)
        if status.job_id in held and status.state is State.PENDING
        else status
        for status in found
    ]


parse_history = parse_queue


def queue_rules() -> Sequence[str]:
    """qstat of all queues; preemption is the scheduler's own setting, which it does not show."""
    return ("qstat", "-Q", "-f")


def parse_queue_rules(stdout: str) -> list[QueueRules]:
    """The longest walltime of each queue."""
    found = qstat.from_text(re.sub(r"^Queue: *", "Job Id: ", stdout, flags=re.MULTILINE))
    return [
        QueueRules(name=name, most=seconds(attributes.get("resources_max.walltime", "")))
        for name, attributes in found.items()
    ]


def taken(job_id: str) -> Sequence[str]:
    """qstat, which shows a job after all hooks."""
    return ("qstat", "-f", job_id)


def parse_taken(stdout: str) -> Taken | None:
    """Queue, walltime, number of nodes and account of the first job."""
    for attributes in qstat.from_text(stdout).values():
        count = attributes.get("resource_list.nodect", "")
        return Taken(
            partition=attributes.get("queue"),
            walltime=seconds(attributes.get("resource_list.walltime", "")),
            nodes=int(count) if digits(count) else None,
            account=attributes.get("account_name"),
        )
    return None


def probe(asked: Probe) -> Sequence[str]:
    """qsub of a chunk with one core, and a GPU if requested."""
    chunk = (
        "select=1:ncpus=1" + (":ngpus=1" if asked.gpu else "") + (f":host={asked.host}" if asked.host else "")
    )
    return ["qsub", "-N", "dlrun-probe", "-j", "oe", "-o", asked.log, "-l", chunk,
            "-l", f"walltime=00:{asked.minutes:02}:00"]  # fmt: skip


def unknown_jobs(stderr: str, code: int) -> bool:
    """True if a query failed only because the jobs are unknown or there is no job history."""
    return every_line_matches(
        r"Unknown Job Id|Job has finished|not configured to maintain job history", stderr
    )
