"""Torque: qsub, qstat, qdel, qhold and qrls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from dlrun.model.job import JobStatus, State
from dlrun.model.text import Shell
from dlrun.resources import beside
from dlrun.schedulers.pbs import acceptance, clients, openpbs, qstat, torque_directives
from dlrun.schedulers.pbs.directives import PREFIX
from dlrun.schedulers.pbs.options import TORQUE as OPTIONS
from dlrun.schedulers.pbs.states import job_status
from dlrun.schedulers.protocol import Allocation, Probe
from dlrun.schedulers.refusals import every_line_matches

__all__ = ["OPTIONS", "PREFIX"]

NAME = "torque"
ID = clients.ID
array, directives = torque_directives.array, torque_directives.directives
submitted, task_id, REFUSALS = clients.submitted, clients.task_id, clients.REFUSALS
cluster, identify, identified = clients.cluster, clients.identify, clients.identified
cancel, hold, release = clients.cancel, clients.hold, clients.release
HOSTS = openpbs.HOSTS
submit = openpbs.submit
taken, parse_taken = openpbs.taken, openpbs.parse_taken
queue_rules, parse_queue_rules = openpbs.queue_rules, openpbs.parse_queue_rules
CLIENT = "qsub"
JOB_ID = Shell(r"${PBS_JOBID/\[*\]/[]}")
ARRAY_INDEX = Shell("${PBS_ARRAYID:-}")
LIBRARY: tuple[str, ...] = (beside(__file__, "pbs"), "resubmit")
RESTARTS = Shell(clients.restarts("start_count"))
IDS_NAME_CLUSTER = True
PATTERNS = r"\n"  # qsub sends the path as one line of the job's attributes
FINDER = beside(__file__, "find_pbs")
CLUSTER_KEY: Literal["pbs_server"] = "pbs_server"
GPUS: Literal["ngpus"] = "ngpus"
ACCOUNT_OPTION = "-A"
ALLOCATION = Allocation(
    start="qsub -I",
    job_id="PBS_JOBID",
    hosts="PBS_NODEFILE",
    size="-l nodes={nodes}:ppn={node_cpus}",
    gpus=":gpus={gpus}",
)
ACCEPTANCE = acceptance
NO_EXCLUDE = (
    "Torque has no option to exclude nodes, so the job itself does not use such a node if it is granted"
)
"""qsub(1B), `-l nodes`."""

_CODES = {
    -1: (State.FAILED, "it could not be started"),
    -2: (State.FAILED, "it could not be started"),
    -3: (State.FAILED, "it could not be started after all retries"),
    -4: (State.NODE_FAILED, "Torque was restarted on the node"),
    -5: (State.NODE_FAILED, "Torque was restarted on the node"),
    -6: (State.NODE_FAILED, "Torque was restarted on the node"),
    -8: (State.FAILED, "the script could not be executed"),
    -9: (State.FAILED, "the log file could not be opened"),
    -10: (State.OUT_OF_MEMORY, "it used more memory than requested"),
    -11: (State.TIMED_OUT, "the walltime was exceeded"),
    -12: (State.TIMED_OUT, "its CPU time limit was exceeded"),
    -13: (State.FAILED, "the node could not create its cgroups"),
}
"""JOB_EXEC_* in Torque's pbs_job.h."""


def queue(job_ids: Sequence[str]) -> Sequence[str]:
    """One qstat for any number of jobs; ended jobs are listed for `keep_completed` seconds."""
    tasks = ("-t",) if any("[" in job_id for job_id in job_ids) else ()
    return ("qstat", *tasks, "-f", *job_ids)


def parse_queue(stdout: str) -> Sequence[JobStatus]:
    """The jobs in the output of qstat."""
    return [
        job_status(identity, attributes, _CODES) for identity, attributes in qstat.from_text(stdout).items()
    ]


def probe(asked: Probe) -> Sequence[str]:
    """qsub of a job with one processor."""
    return ["qsub", "-N", "dlrun-probe", "-j", "oe", "-o", asked.log, "-l", f"nodes={asked.host or 1}:ppn=1",
            "-l", f"walltime=00:{asked.minutes:02}:00"]  # fmt: skip


def unknown_jobs(stderr: str, code: int) -> bool:
    """True if a query failed only because the jobs are unknown.

    Slurm's PBS wrappers report it only by the exit code: PBSE_UNKJOBID, 15001, modulo 256 = 153.
    """
    return every_line_matches(r"Unknown Job Id", stderr) or (code == 153 and not stderr.strip())
