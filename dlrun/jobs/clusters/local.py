"""The `local` scheduler: a job is a detached process tree of this user under one supervisor."""

from __future__ import annotations

import contextlib
import os
import platform
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import dlrun.node
from dlrun import resources
from dlrun.errors import OperationFailed
from dlrun.jobs.records import ownership
from dlrun.jobs.records.jobs import Job
from dlrun.jobs.records.outcome import REASONS
from dlrun.jobs.records.validation import clock, run_state
from dlrun.model.job import Action, JobStatus, State
from dlrun.model.plan import Plan
from dlrun.model.text import digits
from dlrun.system.paths import runnable
from dlrun.system.process import Completed, Runner, command_line, descendants, processes, start_time
from dlrun.system.writing import append_to

_SUPERVISOR = Path(dlrun.node.__file__).parent / "supervise.py"
CANCEL = ".cancel"
"""A file in a run's directory that requests the supervisor to end or skip it."""

WAITS = False
PAUSES = (0.2, 0.2)
"""Short: reading the process table and the job directory has no cost for others."""

_started: list[subprocess.Popen[bytes]] = []
"""The supervisors that this process has started and not yet reaped: programs that use dlrun may start many."""

_ARGUMENTS_PAUSE = 0.01
_ARGUMENTS_READS = 1000
"""Seconds between reads, and maximum number of reads, of the arguments of a process that is being started."""


def name(scheduler: str, runner: Runner) -> str | None:  # noqa: ARG001 - there is no scheduler to ask
    """This machine's host name."""
    return platform.node()


def cluster(job: Job) -> str | None:
    """The machine that started the job."""
    return job.host


def answering(job: Job, runner: Runner | None = None) -> str | None:  # noqa: ARG001 - there is no scheduler to ask
    """This machine's name; for a running job the recorded one, in case the machine was renamed."""
    return job.cluster or job.host if alive(job.job_id or "") else platform.node()


def where(job: Job, own: str) -> str:  # noqa: ARG001 - the job has no other
    """The name of the job's machine."""
    return f"`{own}`"


def submit(
    plan: Plan, directory: Path, environment: Mapping[str, str], *, attached: bool = False
) -> Completed:
    """Start the job; the answer is its id. `attached`: it ends with this process."""
    points, walltime = len(plan.points) if plan.pool is None else 0, plan.request.walltime
    job_id = start(
        directory, walltime=walltime, points=points or None, environment=environment, attached=attached
    )
    return Completed(returncode=0, stdout=job_id, stderr="")


def find(scheduler: str, directory: Path) -> str | None:  # noqa: ARG001 - there is one
    """The id of the job with a running supervisor."""
    return supervisor(directory)


def ask(jobs: Sequence[Job], runner: Runner) -> Mapping[Path, list[JobStatus]]:  # noqa: ARG001 - there is no scheduler to ask
    """The state of each run."""
    return {job.directory: status(job) for job in jobs}


def act(action: Action, wanted: Sequence[tuple[Job, Sequence[int] | None]]) -> Iterator[str]:  # noqa: ARG001
    """Cancel jobs one after the other: jobs that never wait cannot be held or released."""
    for job, tasks in wanted:
        yield "cancelled" if cancel(job, tasks) else "had ended already"


def start(
    directory: Path,
    *,
    walltime: int | None,
    points: int | None,
    environment: Mapping[str, str],
    attached: bool = False,
) -> str:
    """Start the job's supervisor in a session of its own; returns its id: process id and start time.

    `attached`: the job is cancelled when this process ends.
    """
    if resources.packed(_SUPERVISOR) is not None:
        ownership.add(directory, _SUPERVISOR.name)  # its copy
    # -S, -E: PYTHON* variables and site-packages of the training's environment must not affect the supervisor.
    arguments = [
        sys.executable,
        "-S",
        "-E",
        str(runnable(_SUPERVISOR, directory)),
        str(directory),
        "job.sh",
        str(int(walltime or 0)),
        str(points or 0),
        *([str(os.getpid())] if attached else []),
    ]
    # Signals stay blocked until the supervisor has set its handlers, so that an early cancel does not kill it.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    try:
        with append_to(directory / "supervisor.log") as log:
            process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=directory,
                env=dict(environment),
                start_new_session=True,
            )
    except OSError as error:
        raise OperationFailed(f"cannot start the job: {error.strerror}") from None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    # A short job may have ended already: until `poll` below its process is a zombie.
    job_id = f"{process.pid}.{start_time(process.pid, zombie=True)}"
    _started[:] = [child for child in (*_started, process) if child.poll() is None]
    return job_id


def supervisor(directory: Path) -> str | None:
    """The id of the job that runs in a directory, from the process table; None without one."""
    for pid in processes():
        words = command_line(pid)[3:5]
        if len(words) == 2 and Path(words[0]).name == _SUPERVISOR.name and words[1] == str(directory):
            return f"{pid}.{start_time(pid)}"
    return None


def alive(job_id: str) -> bool:
    """Whether the supervisor runs: the same process, not a later one with its pid."""
    pid, _, started = job_id.partition(".")
    return digits(pid) and started != "" and start_time(int(pid)) == started


def supervises(job_id: str, directory: Path) -> bool:
    """Whether the process is the running supervisor of the job in this directory; checked before it is signalled."""
    words: list[str] = []
    same = False
    try:
        # A process that is just executing its program has no arguments yet: execve(2) closes the pipe on which `Popen` waits
        # (close-on-exec) before it sets them.
        for _ in range(_ARGUMENTS_READS):
            if not alive(job_id):
                return False
            words = command_line(_pid(job_id))
            same = Path(f"/proc/{_pid(job_id)}/cwd").samefile(directory)
            if words:
                break
            time.sleep(_ARGUMENTS_PAUSE)
    except OSError:
        return False
    return same and len(words) > 3 and Path(words[3]).name == _SUPERVISOR.name


def status(job: Job) -> list[JobStatus]:
    """The state of each run, from the process table and the job directory."""
    if job.job_id is None:
        return []
    running = alive(job.job_id)
    return [_one(job, path, index, running) for index, path in enumerate(job.run_directories())]


def cancel(job: Job, tasks: Sequence[int] | None = None, *, timeout: float = 40.0) -> bool:
    """End the job, or points of its sweep, and wait for the end; False if all had ended already.

    A supervisor that does not end within `timeout` seconds (such as a stopped one) is killed with all its descendants.
    Raises OperationFailed if points or processes do not end.
    """
    job_id = str(job.job_id)
    if not supervises(job_id, job.directory):
        return False
    if tasks is None:
        os.kill(_pid(job_id), signal.SIGTERM)
        # The default timeout is more than the supervisor's grace period of 15 s for the ranks.
        if not _reached(lambda: not alive(job_id), timeout):
            _kill_tree(job_id)
        return True
    runs = [run for task, run in enumerate(job.run_directories()) if task in tasks and not _ended(run)]
    for run in runs:
        (run / CANCEL).touch()
    # A point that has not begun is done, too: the supervisor skips it because of the file.
    gone = _reached(lambda: all(_ended(run) or not _begun(run) for run in runs) or not alive(job_id), timeout)
    # The supervisor is not killed: other points of the sweep may still run.
    if not gone:
        raise OperationFailed(
            f"job {job_id} did not end within {timeout:.0f} s",
            help=f"`dlrun cancel {shlex.quote(job.directory.name)}` ends all of its points",
        )
    return bool(runs)


def _pid(job_id: str) -> int:
    return int(job_id.partition(".")[0])


def _reached(condition: Callable[[], bool], timeout: float) -> bool:
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _kill_tree(job_id: str) -> None:
    """Kill a supervisor and every process below it; raises OperationFailed if one cannot be killed."""
    tree = {pid: start_time(pid) for pid in descendants(_pid(job_id))}
    for pid in tree:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    _reached(lambda: not _still(tree), 10)
    left = _still(tree)
    if left:
        raise OperationFailed(
            f"processes of job {job_id} cannot be killed: {', '.join(map(str, left))}",
            help="they are blocked in the kernel, often by a file system; an administrator can see which",
        )


def _still(processes: Mapping[int, str]) -> list[int]:
    """Those of the processes, with their start times, that run: a later one may have the id of one that ended."""
    return [pid for pid, started in processes.items() if started and start_time(pid) == started]


def _begun(run: Path) -> bool:
    return run_state(run) is not None


def _ended(run: Path) -> bool:
    return (run_state(run) or {}).get("state") == "ended"


def instance() -> str:
    """The machine, its boot and the process namespace of this process: a process id has a meaning only there."""
    parts = []
    for path in ("/etc/machine-id", "/proc/sys/kernel/random/boot_id"):
        try:
            parts.append(Path(path).read_text(encoding="ascii").strip() or "-")
        except (OSError, ValueError):
            parts.append("-")
    try:
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    except OSError:
        parts.append("-")
    return " ".join(parts)


def _elsewhere(job: Job) -> str | None:
    """Why processes here do not show whether a job runs: it has another machine, or another container of this one."""
    own, here = (job.instance or "").split(" "), instance().split(" ")
    if len(own) != len(here) or own == here:
        return None
    if own[0] != here[0]:
        return "it was started on another machine of this name"
    return "it was started in another container of this machine" if own[1] == here[1] else None


def _one(job: Job, run: Path, index: int, running: bool) -> JobStatus:
    """The state of one run; running: whether the supervisor runs."""
    recorded = run_state(run)
    record = recorded or {}
    code = record.get("exit_code")
    if recorded is None and (run / CANCEL).exists():
        state = State.CANCELLED
    elif recorded is None:
        state = State.PENDING if running else State.LOST
    elif job.pool and running and (record.get("state") == "requeued" or record.get("unfinished")):
        state = State.PENDING
    elif record.get("state") != "ended":
        state = State.RUNNING if running else State.LOST
    elif running and not job.pool and (job.array is None or index == job.array - 1):
        state = State.ENDING  # the supervisor is still ending processes of the script
    elif record.get("reason") in REASONS:
        state = REASONS[record["reason"]]
    else:
        state = State.COMPLETED if code == 0 else State.FAILED
    reason = _elsewhere(job) if state is State.LOST else None
    return JobStatus(
        job_id=job.job_id or "",
        task=index if job.array is not None else None,
        state=State.UNKNOWN if reason else state,
        reason=reason,
        exit_code=code,
        nodes=record.get("host"),
        started=clock(record.get("started")),
        ended=clock(record.get("ended")),
    )
