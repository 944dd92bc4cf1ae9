"""Slurm, from 22.05: sbatch, squeue, sacct, scancel and scontrol."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from dlrun.model.text import Shell, Text
from dlrun.resources import beside
from dlrun.schedulers.protocol import Allocation, Probe
from dlrun.schedulers.refusals import every_line_matches, printed_id
from dlrun.schedulers.slurm import accounting, components, granted
from dlrun.schedulers.slurm.directives import PREFIX, array, directives
from dlrun.schedulers.slurm.granted import partitions as parse_queue_rules, taken as parse_taken
from dlrun.schedulers.slurm.options import OPTIONS
from dlrun.schedulers.slurm.refusals import INVALID_ACCOUNT, REFUSALS
from dlrun.schedulers.slurm.states import HISTORY_FIELDS, QUEUE_FIELDS, parse_history, parse_queue

__all__ = [
    "OPTIONS",
    "PREFIX",
    "REFUSALS",
    "accounting",
    "array",
    "directives",
    "parse_history",
    "parse_queue",
    "parse_queue_rules",
    "parse_taken",
]

NAME = "slurm"
CLIENT = "sbatch"
# In an array task SLURM_JOB_ID is the task's own number, which dlrun does not record.
JOB_ID = Shell("${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}")
ID = "[0-9]{1,12}"
ARRAY_INDEX = Shell("${SLURM_ARRAY_TASK_ID:-}")
RESTARTS = Shell("${SLURM_RESTART_COUNT:-0}")
HOSTS = 'scontrol show hostnames "$SLURM_JOB_NODELIST"'
# In an array only this task is requeued, not the whole array.
REQUEUE = (
    'scontrol requeue "${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_}${SLURM_ARRAY_TASK_ID:-$SLURM_JOB_ID}"'
)
HIDES_ENVIRONMENT = True
SIGNALS_EARLY = True
WRITES_IN_PLACE = True
# sbatch(1), filename pattern: a backslash turns all of them off. Slurm 22.05 replaces them twice, so `%%` does not help.
PATTERNS = r"%[0-9]*[A-Za-z%]|\\"
REPORTS_LOST_NODES = True
OUTLIVES_FIRST_NODE = True
POINTS_INSIDE = True
ROLES_INSIDE = True
COMPONENTS = components.COMPONENTS
FINDER = beside(__file__, "find_slurm")
STEPS = "srun"
LAUNCHER = "srun"
LISTED_GPUS: Literal["gres"] = "gres"
SEVERAL_QUEUES = True  # sbatch(1), --partition
FEATURES = True
WHOLE_MEMORY = True
NETWORK = "--network="
EXCLUDE = "--exclude="
EXCLUDE_REQUEUED = "dlrun_exclude_on_requeue"
ALLOCATION = Allocation(
    start="salloc",
    job_id="SLURM_JOB_ID",
    nodes="SLURM_JOB_NUM_NODES",
    size="--nodes={nodes} --ntasks-per-node={ranks} --cpus-per-task={cpus}",
    gpus=" --gpus-per-node={gpus}",
    query=("scontrol", "show", "job", "--details", "--oneliner"),
    parse=granted.parse,
    library=(beside(__file__, "slurm-allocation"),),
    without=(
        "--output",
        "--error",
        "--open-mode",
        "--requeue",
        "--no-requeue",
        "--signal",
        "--array",
        "--export",
    ),
)


def submit(
    script: str, *, check: bool = False, points: int | None = None, at_once: int | None = None
) -> Sequence[str]:
    """Arguments that submit a script, or with `check` verify that it would be accepted (`--test-only`)."""
    return ("sbatch", "--test-only" if check else "--parsable", script)


def in_queue(arguments: Sequence[str], queue: str) -> Sequence[str]:
    """Options of the command line are stronger than those in the script (sbatch(1))."""
    client, *rest = arguments
    return (client, f"--partition={queue}", *rest)


def submitted(stdout: str) -> str:
    """The job id from `sbatch --parsable` (`123` or `123;cluster`), other lines are ignored."""
    line = r"(?:Submitted batch job )?(\d+)(?:;\S+)?(?: on cluster \S+)?"
    return printed_id("sbatch", line, stdout, "squeue --me")


def cluster(text: str) -> str | None:
    """The cluster in `123;cluster`, which sbatch prints for a job on another cluster than the default one."""
    match = re.search(r"^(?:\d+;|Submitted batch job \d+ on cluster )(\w[\w.-]*)\s*$", text, re.MULTILINE)
    return match[1] if match else None


def identify() -> Sequence[str]:
    """Arguments that print the controller's configuration, with the cluster's name."""
    return ("scontrol", "show", "config")


def identified(stdout: str) -> str | None:
    """The `ClusterName` in the output of `scontrol show config`."""
    match = re.search(r"^ClusterName\s*=\s*(\S+)", stdout, re.MULTILINE)
    return match[1] if match else None


def estimate(output: str) -> str | None:
    """The expected start that `sbatch --test-only` prints: `2026-11-21T03:04:15 on n[1-2]`."""
    match = re.search(r"to start at (\S+) using \d+ processors on (?:nodes )?(\S+)", output)
    return f"{match[1]} on {match[2]}" if match else None


def taken(job_id: str) -> Sequence[str]:
    """scontrol, which shows a job after all submission plug-ins."""
    return ("scontrol", "show", "job", "--oneliner", job_id)


def queue_rules() -> Sequence[str]:
    """scontrol, with one partition a line."""
    return ("scontrol", "show", "partition", "--oneliner")


def queue(job_ids: Sequence[str]) -> Sequence[str]:
    """One squeue for any number of jobs; ended jobs are listed for MinJobAge (300 s by default)."""
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
    """One sacct for any number of jobs with their steps, because only steps have the state OUT_OF_MEMORY."""
    fields = ",".join(HISTORY_FIELDS.values())
    return (
        "sacct",
        "--noheader",
        "--parsable2",
        f"--format={fields}",
        f"--jobs={','.join(job_ids)}",
    )


def probe(asked: Probe) -> Sequence[str]:
    """srun, which gives up after `--immediate` seconds."""
    named = [f"--nodelist={asked.host}"] if asked.host else []
    queue = [f"--partition={asked.queue}"] if asked.queue else []
    what = ["--nodes=1", "--ntasks=1", *named, *(["--gres=gpu:1"] if asked.gpu else []), *queue]
    times = [f"--time={asked.minutes}", f"--immediate={asked.wait}"]
    return ["srun", "--job-name=dlrun-probe", *times, *what, "--cpu-bind=none"]


def unknown_jobs(stderr: str, code: int) -> bool:
    """True if a query failed only because the jobs are unknown or there is no accounting."""
    return every_line_matches(r"Invalid job id specified|accounting storage is disabled", stderr)


def step_inside(job_id: str, host: str, *, terminal: bool) -> Sequence[Text]:
    """A step that shares what the job has: it takes no memory, CPU or GPU from the job's other steps."""
    words = [
        "srun",
        "--quiet",
        "--overlap",
        "--unbuffered",  # else what has no end of line waits for one
        "--nodes=1",
        "--ntasks=1",
        f"--nodelist={host}",
        "--cpu-bind=none",
        "--mem=0",
        "--export=ALL",
    ]
    task = "_" in job_id  # srun takes only the task's own number
    number = Shell(f"$(squeue --noheader --jobs={job_id} --format=%A)") if task else job_id
    return (*map(Text.of, words), Text.of("--jobid=", number), *map(Text.of, ("--pty",) if terminal else ()))


def task_id(job_id: str, task: int) -> str:
    """The id of one array task, `123_4`."""
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


def accounts(stderr: str, user: str) -> Sequence[str]:
    """Arguments that list a user's accounts, one per line, for a rejection of the account; else empty."""
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
