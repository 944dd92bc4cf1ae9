"""Slurm, from 22.05: sbatch, squeue, sacct, scancel and scontrol."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from dlrun.errors import OperationFailed
from dlrun.model.text import Shell
from dlrun.schedulers.protocol import Allocation, Probe
from dlrun.schedulers.refusals import advice_for, says_only
from dlrun.schedulers.slurm import accounting
from dlrun.schedulers.slurm.directives import PREFIX, array, directives
from dlrun.schedulers.slurm.refusals import INVALID_ACCOUNT, REFUSALS
from dlrun.schedulers.slurm.states import HISTORY_FIELDS, QUEUE_FIELDS, parse_history, parse_queue

__all__ = ["PREFIX", "accounting", "array", "directives", "parse_history", "parse_queue"]

NAME = "slurm"
CLIENT = "sbatch"
BY_HAND = "sbatch"
JOB_ID = Shell("${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}")
ID = "[0-9]{1,12}"
ARRAY_INDEX = Shell("${SLURM_ARRAY_TASK_ID:-}")
LIBRARY: tuple[str, ...] = ()
RESTARTS = Shell("${SLURM_RESTART_COUNT:-0}")
HOSTS = 'scontrol show hostnames "$SLURM_JOB_NODELIST"'
REQUEUE = (
    'scontrol requeue "${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_}${SLURM_ARRAY_TASK_ID:-$SLURM_JOB_ID}"'
)
HIDES_ENVIRONMENT = True
SIGNALS_EARLY = True
IDS_NAME_CLUSTER = False
WRITES_IN_PLACE = True
TELLS_OF_LOST_NODES = True
ON_THIS_MACHINE = False
MOST_NODES: int | None = None
WHOLE_NODES = False
FINDER = "find_slurm"
STEPS = "srun"
LAUNCHER = "srun"
CLUSTER_KEY: Literal["cluster_name"] = "cluster_name"
GPUS: Literal["gpus_per_node"] = "gpus_per_node"
LISTED_GPUS: Literal["gres"] = "gres"
ACCOUNT_OPTION = None
HISTORY_DELAY = 0
QUESTIONS: Mapping[str, str] = {}
FEATURES = True
WHOLE_MEMORY = True
NETWORK = "--network="
EXCLUDE = "--exclude="
EXCLUDE_REQUEUED = "dlrun_exclude_on_requeue"
NO_EXCLUDE = ""
ALLOCATION = Allocation(start="salloc", job_id="SLURM_JOB_ID", nodes="SLURM_JOB_NUM_NODES")
TRIAL = None


def submit(
    script: str, *, check: bool = False, points: int | None = None, at_once: int | None = None
) -> Sequence[str]:
    """Arguments that submit a script, or with `check` only ask whether it would be accepted."""
    return ("sbatch", "--test-only" if check else "--parsable", script)


def submitted(stdout: str) -> str:
    """The job id from `sbatch --parsable` (`123` or `123;cluster`), among whatever a site prints around it."""
    for line in reversed(stdout.splitlines()):
        if match := re.fullmatch(
            r"(?:Submitted batch job )?(\d+)(?:;\S+)?(?: on cluster \S+)?", line.strip()
        ):
            return match[1]
    message = "sbatch printed no job id"
    raise OperationFailed(message, help="`squeue --me` shows whether the job is there")


def cluster(text: str) -> str | None:
    """The cluster in `123;cluster`, which sbatch prints where it was sent to another than its own."""
    match = re.search(r"^(?:\d+;|Submitted batch job \d+ on cluster )(\S+)\s*$", text, re.MULTILINE)
    return match[1] if match else None


def identify() -> Sequence[str]:
    """Arguments that ask the controller for its configuration, which has the name of the cluster."""
    return ("scontrol", "show", "config")


def identified(stdout: str) -> str | None:
    """The `ClusterName` in what `scontrol show config` printed."""
    match = re.search(r"^ClusterName\s*=\s*(\S+)", stdout, re.MULTILINE)
    return match[1] if match else None


def estimate(output: str) -> str | None:
    """The expected start that `sbatch --test-only` prints: `2026-11-21T03:04:15 on n[1-2]`."""
    match = re.search(r"to start at (\S+) using \d+ processors on (?:nodes )?(\S+)", output)
    return f"{match[1]} on {match[2]}" if match else None


def queue(job_ids: Sequence[str]) -> Sequence[str]:
    """One squeue for any number of jobs; those that ended are still known for MinJobAge (300 s by default)."""
    fields = ",".join(f"{name}:|" for name in QUEUE_FIELDS.values())
    return (
        "squeue",
        "--noheader",
        "--array",
        "--states=all",
        f"--Format={fields}",
        f"--jobs={','.join(job_ids)}",
    )


def history(job_ids: Sequence[str]) -> Sequence[str] | None:
    """One sacct for any number of jobs with their steps: only a step reports that memory ran out."""
    fields = ",".join(HISTORY_FIELDS.values())
    return (
        "sacct",
        "--noheader",
        "--parsable2",
        f"--format={fields}",
        f"--jobs={','.join(job_ids)}",
    )


def probe(asked: Probe) -> Sequence[str]:
    """srun, which stops waiting by itself."""
    named = [f"--nodelist={asked.host}"] if asked.host else []
    queue = [f"--partition={asked.queue}"] if asked.queue else []
    what = ["--nodes=1", "--ntasks=1", *named, *(["--gres=gpu:1"] if asked.gpu else []), *queue]
    times = [f"--time={asked.minutes}", f"--immediate={asked.wait}"]
    return ["srun", "--job-name=dlrun-probe", *times, *what, "--cpu-bind=none"]


def knows_nothing(stderr: str, code: int) -> bool:
    """True if a query failed only because Slurm has forgotten the jobs, or keeps no accounts."""
    return says_only(r"Invalid job id specified|accounting storage is disabled", stderr)


def tasks(job_id: str) -> Sequence[str]:
    """None: points are tasks of one job."""
    return ()


def task_id(job_id: str, task: int) -> str:
    """`123_4`."""
    return f"{job_id}_{task}"


def cancel(job_ids: Sequence[str]) -> Sequence[str]:
    """Arguments that cancel jobs."""
    return ("scancel", *job_ids)


def hold(job_ids: Sequence[str]) -> Sequence[str]:
    """Arguments that hold jobs."""
    return ("scontrol", "hold", ",".join(job_ids))


def release(job_ids: Sequence[str]) -> Sequence[str]:
    """Arguments that release held jobs."""
    return ("scontrol", "release", ",".join(job_ids))


def advice(stderr: str) -> str | None:
    """What to do about a refusal, from the words that the client used; None if unknown."""
    return advice_for(REFUSALS, stderr)


def accounts(stderr: str, user: str) -> Sequence[str]:
    """Arguments that list a user's accounts, one a line, where a refusal is about the account; else none."""
    if not re.search(INVALID_ACCOUNT, stderr, re.IGNORECASE):
        return ()
    return (
        "sacctmgr",
        "--noheader",
        "--parsable2",
        "show",
        "associations",
        f"user={user}",
        "format=account",
    )
