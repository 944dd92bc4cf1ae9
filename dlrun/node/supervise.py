"""Run one job of the `local` scheduler: detached from the terminal, within its walltime, leaving no processes behind.

    python3 supervise.py JOB_DIR SCRIPT WALLTIME_SECONDS POINTS [PARENT]

With PARENT, the id of the process that has started it, the job is cancelled when that process ends, however it ends.
The supervisor is the subreaper of all its descendants, so that it finds daemonized processes, too. SIGTERM to it cancels
the job: the whole process tree gets SIGTERM, and SIGKILL after 15 s (DLRUN_GRACE + 5, if that variable is set). The runs of
a sweep (POINTS > 0) are serial. If the script could not write `state.json`, the supervisor writes it.
"""

import contextlib
import ctypes
import functools
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any, Dict, List

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
CLOCK_BOOTTIME = 7  # linux/time.h; in Python's library from 3.7 on
GRACE = float(os.environ.get("DLRUN_GRACE") or 10.0) + 5.0
cancelled = False


def uptime() -> float:
    """Seconds since the boot, as `job.sh` counts them: no change of the clock affects it, and it runs while a laptop sleeps."""
    return time.clock_gettime(CLOCK_BOOTTIME)


def set_process(option: int, value: int) -> None:
    """Set an option of this process with prctl(2), if the C library and the kernel have it."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def end_with(supervisor: int) -> None:
    """Run in the script's process: it gets SIGTERM if the supervisor, its parent with this process id, is killed."""
    set_process(PR_SET_PDEATHSIG, signal.SIGTERM)
    # A parent that was killed before the call causes no signal.
    if os.getppid() != supervisor:
        os._exit(128 + signal.SIGTERM)


def children(pid: int) -> List[int]:
    """The ids of all living descendants of a process, the deepest last; zombies are left out."""
    parents: Dict[int, List[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/{}/stat".format(name)) as stat:
                    # The second field, the program's name in parentheses, may itself contain blanks and parentheses.
                    fields = stat.read().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                parents.setdefault(int(fields[1]), []).append(int(name))
    pids, queue = [], [pid]
    while queue:
        below = parents.get(queue.pop(0), [])
        pids += below
        queue += below
    return pids


def identity() -> str:
    """This job's id: process id and start time (field 22 of /proc/PID/stat), since pids are reused."""
    with open("/proc/self/stat") as stat:
        return "{}.{}".format(os.getpid(), stat.read().rpartition(")")[2].split()[19])


def send(pids: List[int], number: int) -> None:
    """Send a signal to the processes that are still alive."""
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def sweep_away(script: int) -> None:
    """End all descendants: the script first, so that it can end its ranks in order; SIGKILL after `GRACE` seconds."""
    send([script], signal.SIGTERM)
    asked_all = False
    deadline = time.monotonic() + GRACE
    while children(os.getpid()) and time.monotonic() < deadline:
        time.sleep(0.05)
        has_ended(script)
        if not asked_all and script not in children(os.getpid()):
            send(children(os.getpid()), signal.SIGTERM)
            asked_all = True
    # Repeated until none is left: a process can fork between the reading of /proc and the signal.
    while children(os.getpid()):
        send(children(os.getpid()), signal.SIGKILL)
        time.sleep(0.02)
        has_ended(script)


def write_state(run_dir: str, state: Dict[str, Any]) -> None:
    """Write state.json atomically."""
    temporary = os.path.join(run_dir, ".state.supervisor")
    with open(temporary, "w") as stream:
        json.dump(state, stream)
        stream.write("\n")
    os.rename(temporary, os.path.join(run_dir, "state.json"))


def read_state(run_dir: str) -> Dict[str, Any]:
    """The state that the script recorded; empty if there is none."""
    try:
        with open(os.path.join(run_dir, "state.json")) as stream:
            return dict(json.load(stream))
    except (OSError, ValueError):
        return {}


def end_requested(run_dir: str) -> bool:
    """True if the job, or this run of its sweep, was cancelled."""
    return cancelled or os.path.exists(os.path.join(run_dir, ".cancel"))


def run(job_dir: str, script: str, walltime: float, index: str) -> int:
    """Run the script, and rerun it as often as it requests; returns the last exit code."""
    run_dir = os.path.join(job_dir, "points", index) if index else job_dir
    restarts = 0
    while True:
        if end_requested(run_dir):
            end = {"version": 1, "state": "ended", "ended": int(time.time()), "reason": "cancelled"}
            write_state(run_dir, end)
            return 0
        code = run_once(job_dir, run_dir, script, walltime, {"INDEX": index, "RESTART": str(restarts)})
        try:
            # With this file the script requests a rerun (requeue, continuation): there is no scheduler that would do it.
            os.unlink(os.path.join(run_dir, ".again"))
        except OSError:
            return code
        if end_requested(run_dir):
            return code
        restarts += 1


def run_once(job_dir: str, run_dir: str, script: str, walltime: float, variables: Dict[str, str]) -> int:
    """Run the script to its end and return its exit code (128 + signal where a signal ended it)."""
    logs = os.path.join(run_dir, "logs")
    if not os.path.isdir(logs):
        os.makedirs(logs)
    environment = dict(os.environ, DLRUN_LOCAL_JOB=identity())
    environment.update(("DLRUN_LOCAL_" + name, value) for name, value in variables.items())
    begun = uptime()
    with open(os.path.join(logs, "job.log"), "ab") as log, open(os.devnull, "rb") as nothing:
        process = subprocess.Popen(
            # By its path: a file that BASH_ENV names may change the directory before the script is opened.
            ["bash", os.path.join(job_dir, script)],
            stdin=nothing,
            stdout=log,
            stderr=log,
            cwd=job_dir,
            env=environment,
            preexec_fn=functools.partial(end_with, os.getpid()),  # noqa: PLW1509 - this process has one thread
        )
        timed_out = stopped = False
        while not has_ended(process.pid):
            time.sleep(0.05)
            # Polling instead of a blocking wait: one run of a sweep is cancelled by a file, without a signal.
            timed_out = bool(walltime) and uptime() - begun > walltime
            stopped = end_requested(run_dir)
            if stopped or timed_out:
                if timed_out:
                    log.write(b"dlrun: the walltime was exceeded\n")
                    log.flush()
                sweep_away(process.pid)
        # Background processes that the script has left end with the job.
        sweep_away(process.pid)
        code = process.wait()
    code = 128 - code if code < 0 else code
    state = read_state(run_dir)
    asked_for_more = state.get("state") == "requeued" and not (stopped or timed_out)
    if asked_for_more:
        return code
    if state.get("state") != "ended" or stopped or timed_out:
        ended, elapsed = int(time.time()), int(uptime() - begun)
        state.update(version=1, state="ended", ended=ended, exit_code=code, started=ended - elapsed)
        state["reason"] = "cancelled" if stopped else "timed out" if timed_out else "killed"
        write_state(run_dir, state)
    return code


def has_ended(script: int) -> bool:
    """True once the script has ended. Its status stays for `Popen.wait`; zombies of orphans are reaped."""
    while True:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            return False
        if ended.si_pid == script:
            return True
        os.waitpid(ended.si_pid, 0)


def main(arguments: List[str]) -> int:
    """Run the script, or every run of the sweep; returns the first exit code that is not 0."""
    global cancelled  # noqa: PLW0603 - as its signal handler sets it
    job_dir, script, walltime, points = arguments[0], arguments[1], float(arguments[2]), int(arguments[3])

    def cancel(number: int, frame: object) -> None:  # noqa: ARG001 - what a signal handler is given
        global cancelled  # noqa: PLW0603 - a signal handler has no other way out
        cancelled = True

    signal.signal(signal.SIGTERM, cancel)
    signal.signal(signal.SIGINT, cancel)
    # The parent process has blocked the signals until their handlers are set.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT})
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if len(arguments) > 4:
        set_process(PR_SET_PDEATHSIG, signal.SIGTERM)
        cancelled = os.getppid() != int(arguments[4])  # it had ended before
    # From here on, orphaned descendants become children of this process.
    set_process(PR_SET_CHILD_SUBREAPER, 1)
    worst = 0
    for index in [str(i) for i in range(points)] or [""]:
        code = run(job_dir, script, walltime, index)
        worst = worst or code
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
