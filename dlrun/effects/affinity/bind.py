"""Binds this process as a rank of a placement, and starts the ranks of a node with their binding."""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from dlrun.errors import Invalid
from dlrun.model.local_rank import variable
from dlrun.model.placement import Placement, RankPlacement
from dlrun.render.affinity.formats.as_wrapper import for_rank
from dlrun.render.affinity.settings import BindingContext
from dlrun.resources import directory, text

SCRIPT = "dlrun-bind"
"""Name of the script that binds a rank, in the list of processes."""

GRACE = 3.0
"""Seconds between SIGTERM and SIGKILL."""

POLL = 0.05
"""Seconds between looks at running ranks, where the system cannot signal when one ends."""


def launcher_cpus() -> set[int]:
    """CPUs of the launcher that started this rank: of the nearest ancestor without that launcher's local rank, or of
    another user."""
    name = variable(os.environ)
    process = os.getppid()
    while process > 1:
        try:
            words = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
            parent = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            break
        if name is None or not any(word.startswith(f"{name}=".encode()) for word in words):
            break
        process = parent
    try:
        return os.sched_getaffinity(process)
    except OSError:
        return set()


def rank_of(placement: Placement, number: int) -> RankPlacement:
    """The rank of this number; raises Invalid if the placement has fewer."""
    if number >= len(placement.ranks):
        raise Invalid(
            f"this is local rank {number}, and only {len(placement.ranks)} ranks were placed",
            help="give `--ranks-per-node` as many as were started on this node",
        )
    return placement.ranks[number]


def become(
    placement: Placement,
    rank: RankPlacement,
    job: BindingContext,
    command: Sequence[str],
    granted: Sequence[int],
) -> NoReturn:
    """Turn this process into the command, bound as the rank; what the launcher set stays as it is. `granted` are the
    job's CPUs: the launcher may have bound this process to fewer.

    Raises Invalid if there is no such program.
    """
    _check(command)
    os.execvpe("bash", _argv(placement, rank, job, command, granted), dict(os.environ))  # noqa: S606 - the user's own bash


def environment_of(placement: Placement, rank: RankPlacement, port: int) -> dict[str, str]:
    """Variables of one rank started here by which torch and programs without MPI find one another."""
    number, count = str(rank.rank), str(len(placement.ranks))
    return {
        "DLRUN_LOCAL_RANK": number,
        "LOCAL_RANK": number,
        "RANK": number,
        "WORLD_SIZE": count,
        "LOCAL_WORLD_SIZE": count,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def _argv(
    placement: Placement,
    rank: RankPlacement,
    job: BindingContext,
    command: Sequence[str],
    granted: Sequence[int] = (),
) -> list[str]:
    """The command behind the script that binds ranks, whatever started them."""
    script = for_rank(placement, replace(job, library=library()), rank, granted)
    return ["bash", "-c", script, SCRIPT, *command]


def is_binding(process: int) -> bool:
    """Whether a rank that was started here is not its command yet, but still the script that binds it."""
    import psutil  # noqa: PLC0415 - 20 ms that a rank, which becomes its command, has no use for

    try:
        words = psutil.Process(process).cmdline()
    except psutil.Error:
        return False
    # A process has no arguments yet for a moment after `exec`.
    return not words or words[3:4] == [SCRIPT]


def _check(command: Sequence[str]) -> None:
    if shutil.which(command[0]) is None:
        path = Path(command[0])
        why = "it is not executable" if path.is_file() else "no such program"
        raise Invalid(f"cannot run `{command[0]}`: {why}")


def library() -> str:
    """The text of `templates/lib/bind.sh`."""
    return text(directory("templates") / "lib" / "bind.sh")


def start_all(
    placement: Placement, job: BindingContext, command: Sequence[str], *, capture: bool
) -> list[subprocess.Popen[str]]:
    """Start the command once for each rank, bound, each in a process group of its own.

    With `capture` standard output is a pipe. Raises Invalid if there is no such program; ranks already started are then
    killed.
    """
    _check(command)
    port = free_port()
    started: list[subprocess.Popen[str]] = []
    try:
        for rank in placement.ranks:
            environment = {**os.environ, **environment_of(placement, rank, port)}
            started += [start_process(_argv(placement, rank, job, command), environment, capture=capture)]
    except BaseException:
        end_all(started)
        raise
    return started


def end_all(processes: Sequence[subprocess.Popen[str]]) -> None:
    """End every rank with all it started: SIGTERM, then SIGKILL to what is left after a grace."""
    for process in processes:
        _signal(process, signal.SIGTERM)
    deadline = time.monotonic() + GRACE
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))
        _signal(process, signal.SIGKILL)
        process.wait()
        if process.stdout:
            process.stdout.close()


def _signal(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Signal the process group of a rank, which may outlive its leader."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def run_all(placement: Placement, job: BindingContext, command: Sequence[str]) -> int:
    """Run the command as every rank to its end; the first rank to fail takes the others down.

    Returns 0, or the exit code of that rank (128 + the signal that ended it).
    """
    processes = start_all(placement, job, command, capture=False)
    try:
        running = list(processes)
        while running:
            _wait_for_any(running)
            for process in [p for p in running if p.poll() is not None]:
                running.remove(process)
                if process.returncode:
                    return process.returncode if process.returncode > 0 else 128 - process.returncode
        return 0
    finally:
        end_all(processes)


def _wait_for_any(processes: Sequence[subprocess.Popen[str]]) -> None:
    """Sleep until one of them may have ended. No waking up in between: that would take time from the ranks."""
    watched = select.poll()
    opened: list[int] = []
    try:
        for process in processes:
            opened.append(os.pidfd_open(process.pid))
            watched.register(opened[-1], select.POLLIN)
        watched.poll()
    except (AttributeError, OSError):  # Linux before 5.3, or a Python built for one
        time.sleep(POLL)
    finally:
        for number in opened:
            os.close(number)


def start_process(
    command: Sequence[str], environment: Mapping[str, str], *, capture: bool
) -> subprocess.Popen[str]:
    """Start a command in a process group of its own; raises Invalid if that is not possible."""
    try:
        return subprocess.Popen(
            list(command),
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if capture else None,
            text=True,
            start_new_session=True,
        )
    except OSError as error:
        message = f"cannot run `{command[0]}`: {error.strerror}"
        raise Invalid(message) from None


def free_port() -> int:
    """A TCP port of the loopback interface without a listener."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
