"""Run one job of the `local` scheduler: detached from the terminal, within its walltime, without leftover processes.

    python3 supervise.py JOB_DIR SCRIPT WALLTIME_SECONDS POINTS

It becomes the reaper of every process below it, so that also those that detach themselves are found.
SIGTERM cancels: SIGTERM to the whole tree, after a grace SIGKILL. A sweep's points (POINTS > 0) run one
after the other. Where the script could not write `state.json` itself, it is written here.
"""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any, Dict, List

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
GRACE = 15.0
cancelled = False


def set_process(option: int, value: int) -> None:
    """Change how the kernel treats this process (prctl(2)); nothing where it does not know how."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def end_with_supervisor() -> None:
    """In the script's process: request SIGTERM if the supervisor is killed."""
    set_process(PR_SET_PDEATHSIG, signal.SIGTERM)


def children(pid: int) -> List[int]:
    """Every process below `pid`, deepest last; a process that ends meanwhile is left out."""
    parents: Dict[int, List[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/{}/stat".format(name)) as stat:
                    fields = stat.read().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                parents.setdefault(int(fields[1]), []).append(int(name))
    found, queue = [], [pid]
    while queue:
        below = parents.get(queue.pop(0), [])
        found += below
        queue += below
    return found


def identity() -> str:
    """This job's id: the process id with its start time (field 22 of /proc/PID/stat), so that it never comes again."""
    with open("/proc/self/stat") as stat:
        return "{}.{}".format(os.getpid(), stat.read().rpartition(")")[2].split()[19])


def send(pids: List[int], number: int) -> None:
    """Send a signal to the processes that are still alive."""
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def sweep_away(script: int) -> None:
    """End all below this process: the script first, so that it can end its ranks in order."""
    send([script], signal.SIGTERM)
    asked_all = False
    deadline = time.time() + GRACE
    while children(os.getpid()) and time.time() < deadline:
        time.sleep(0.05)
        has_ended(script)
        if not asked_all and script not in children(os.getpid()):
            send(children(os.getpid()), signal.SIGTERM)
            asked_all = True
    while children(os.getpid()):
        send(children(os.getpid()), signal.SIGKILL)
        time.sleep(0.02)
        has_ended(script)


def write_state(run_dir: str, state: Dict[str, Any]) -> None:
    """Write state.json, whole or not at all."""
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


def told_to_end(run_dir: str) -> bool:
    """True if the job was cancelled, or this point of its sweep."""
    return cancelled or os.path.exists(os.path.join(run_dir, ".cancel"))


def run(job_dir: str, script: str, walltime: float, index: str) -> int:
    """Run the script, again as often as it asks for that; returns its last exit code."""
    run_dir = os.path.join(job_dir, "points", index) if index else job_dir
    restarts = 0
    while True:
        if told_to_end(run_dir):
            end = {"version": 1, "state": "ended", "ended": int(time.time()), "reason": "cancelled"}
            write_state(run_dir, end)
            return 0
        code = run_once(job_dir, run_dir, script, walltime, {"INDEX": index, "RESTART": str(restarts)})
        try:
            os.unlink(os.path.join(run_dir, ".again"))
        except OSError:
            return code
        if told_to_end(run_dir):
            return code
        restarts += 1


def run_once(job_dir: str, run_dir: str, script: str, walltime: float, told: Dict[str, str]) -> int:
    """Run the script to its end and return its exit code (128 + signal where a signal ended it)."""
    logs = os.path.join(run_dir, "logs")
    if not os.path.isdir(logs):
        os.makedirs(logs)
    environment = dict(os.environ, DLRUN_LOCAL_JOB=identity())
    environment.update(("DLRUN_LOCAL_" + name, value) for name, value in told.items())
    begun = time.time()
    with open(os.path.join(logs, "job.log"), "ab") as log, open(os.devnull, "rb") as nothing:
        process = subprocess.Popen(
            ["bash", script],
            stdin=nothing,
            stdout=log,
            stderr=log,
            cwd=job_dir,
            env=environment,
            preexec_fn=end_with_supervisor,  # noqa: PLW1509 - this process has one thread
        )
        timed_out = stopped = False
        while not has_ended(process.pid):
            time.sleep(0.05)
            timed_out = bool(walltime) and time.time() - begun > walltime
            stopped = told_to_end(run_dir)
            if stopped or timed_out:
                if timed_out:
                    log.write(b"dlrun: the walltime is over\n")
                    log.flush()
                sweep_away(process.pid)
        sweep_away(process.pid)
        code = process.wait()
    code = 128 - code if code < 0 else code
    state = read_state(run_dir)
    asked_for_more = state.get("state") == "requeued" and not (stopped or timed_out)
    if asked_for_more:
        return code
    if state.get("state") != "ended" or stopped or timed_out:
        state.update(version=1, state="ended", ended=int(time.time()), exit_code=code)
        state.setdefault("started", int(begun))
        state["reason"] = "cancelled" if stopped else "timed out" if timed_out else "killed"
        write_state(run_dir, state)
    return code


def has_ended(script: int) -> bool:
    """True once the script has ended; its exit code stays to be collected, adopted orphans' are thrown away."""
    while True:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            return False
        if ended.si_pid == script:
            return True
        os.waitpid(ended.si_pid, 0)


def main(arguments: List[str]) -> int:
    """Run every point; the exit code is the first that is not 0."""
    job_dir, script, walltime, points = arguments[0], arguments[1], float(arguments[2]), int(arguments[3])

    def cancel(number: int, frame: object) -> None:  # noqa: ARG001 - what a signal handler is given
        global cancelled  # noqa: PLW0603 - a signal handler has no other way out
        cancelled = True

    signal.signal(signal.SIGTERM, cancel)
    signal.signal(signal.SIGINT, cancel)
    # The parent process has blocked the signals until their handlers are set.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT})
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    set_process(PR_SET_CHILD_SUBREAPER, 1)  # orphans come to this process
    worst = 0
    for index in [str(i) for i in range(points)] or [""]:
        code = run(job_dir, script, walltime, index)
        worst = worst or code
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
