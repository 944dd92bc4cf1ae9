"""Bind this process as a rank of a placement, or start the bound ranks of a node."""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from dlrun.affinity.formats.as_wrapper import for_rank
from dlrun.affinity.settings import BindingContext
from dlrun.errors import Invalid
from dlrun.model.placement import Placement, RankPlacement
from dlrun.model.text import digits
from dlrun.model.units import many
from dlrun.resources import directory, text

SCRIPT = "dlrun-bind"
"""Name of the binding script in the process list."""

GRACE = 3.0
"""Seconds between SIGTERM and SIGKILL."""

POLL = 0.05
"""Seconds between checks of running ranks, without pidfd_open(2)."""


def launcher_variable() -> str | None:
    """The variable with the local rank that the innermost launcher gave this process; None if none did.

    Of several, the launcher's own is what the nearest process above does not have: a variable may be left over in the shell
    that started the launcher, and launchers pass on those of outer ones. The same as `dlrun_find_local_rank` (bind.sh).
    """
    names = variables(os.environ)
    words = {name: f"{name}={os.environ[name]}".encode() for name in names}
    if len(names) > 1:
        for _, above in _above(os.getppid()):
            own = next((name for name, word in words.items() if above and word not in above), None)
            if own is not None:
                return own
    return next(iter(names), None)


def local_rank() -> int | None:
    """The local rank that the innermost launcher gave this process, None if none did."""
    name = launcher_variable()
    return None if name is None else int(os.environ[name])


def _above(process: int) -> Iterator[tuple[int, list[bytes]]]:
    """A process and those above it, with their environment; the last is the first whose environment cannot be read (empty)."""
    while process > 1:
        try:
            words = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
            parent = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            yield process, []
            return
        yield process, words
        process = parent


def launcher_cpus() -> set[int]:
    """The affinity mask of this rank's launcher: the nearest ancestor without the launcher's local-rank variable, or of
    another user. Empty if it cannot be read."""
    name = launcher_variable()
    launcher = os.getppid()
    # Ranks of one launcher inherit its local-rank variable, and so do all their children: the launcher is the first without it.
    for process, words in _above(launcher):
        launcher = process
        if name is None or not any(word.startswith(f"{name}=".encode()) for word in words):
            break
    try:
        return os.sched_getaffinity(launcher)
    except OSError:
        return set()


def rank_of(placement: Placement, number: int) -> RankPlacement:
    """The rank with a local number; raises Invalid if the placement has fewer ranks."""
    if number >= len(placement.ranks):
        ranks, was = many(len(placement.ranks), "rank"), "was" if len(placement.ranks) == 1 else "were"
        raise Invalid(
            f"this is local rank {number}, and only {ranks} {was} placed",
            help="give `--ranks-per-node` as many as were started on this node",
        )
    return placement.ranks[number]


def become(
    placement: Placement,
    rank: RankPlacement,
    job: BindingContext,
    command: Sequence[str],
    variables: Mapping[str, str],
) -> NoReturn:
    """Replace this process by the command, bound as the rank; the launcher's variables stay, and `variables` are set.

    What was granted is found out by the library, as in a job and in the wrapper. Raises Invalid without the program.
    """
    _check(command)
    words = _argv(placement, rank, job, command, launcher_variable())
    os.execvpe("bash", words, {**os.environ, **variables})  # noqa: S606 - the user's own bash


def environment_of(placement: Placement, rank: RankPlacement, port: int) -> dict[str, str]:
    """The rendezvous variables of a rank started by `start_all`, for torch and programs without MPI."""
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
    variable: str | None = None,
) -> list[str]:
    """The arguments of a bash that binds itself with templates/lib/bind.sh and then executes the command."""
    script = for_rank(placement, replace(job, library=library()), rank, variable)
    return ["bash", "-c", script, SCRIPT, *command]


def is_binding(process: int) -> bool:
    """True if a process is still the binding script, or numactl started by it, and not yet the rank's command."""
    import psutil

    try:
        words = psutil.Process(process).cmdline()
    except psutil.Error:
        return False
    # Directly after `exec` a process has no arguments for a moment.
    return not words or words[3:4] == [SCRIPT] or Path(words[0]).name == "numactl"


def _check(command: Sequence[str]) -> None:
    if shutil.which(command[0]) is None:
        path = Path(command[0])
        why = "it is not executable" if path.is_file() else "no such program"
        way_out = (
            "options of `dlrun tune-affinity` come before `--exec`" if command[0].startswith("-") else None
        )
        raise Invalid(f"cannot run `{command[0]}`: {why}", help=way_out)


def library() -> str:
    """The text of `templates/lib/bind.sh`, `locate.sh`, `divide.sh` and `gpus.sh`."""
    place = directory("templates") / "lib"
    return "\n".join(text(place / name) for name in ("bind.sh", "locate.sh", "divide.sh", "gpus.sh"))


def start_all(
    placement: Placement, job: BindingContext, command: Sequence[str], *, capture: bool
) -> list[subprocess.Popen[str]]:
    """Start the command once per rank, bound, each in its own session.

    capture: standard output is a pipe. Raises Invalid if a rank cannot be started; those already started are ended.
    """
    _check(command)
    port = free_port()
    started: list[subprocess.Popen[str]] = []
    try:
        for rank in placement.ranks:
            environment = {**os.environ, **environment_of(placement, rank, port)}
            started += [start_process(_argv(placement, rank, job, command), environment, capture=capture)]
    except BaseException:
        # Ranks wait for one another: those already started would remain as orphans.
        end_all(started)
        raise
    return started


def end_all(processes: Sequence[subprocess.Popen[str]]) -> None:
    """End all ranks with their children: SIGTERM, and after `GRACE` seconds SIGKILL to the process groups."""
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
    """Run the command as all ranks to the end; after the first failure the others are ended.

    Returns 0, or the exit code of the failed rank (128 + signal).
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
    """Wait until a process may have ended, without wake-ups in between, which would take time from the ranks."""
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
    """Start a command in its own session; raises Invalid if it cannot be started."""
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
        raise Invalid(f"cannot run `{command[0]}`: {error.strerror}") from None


def free_port() -> int:
    """A free TCP port of the loopback interface; another process may take it before it is used."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# Variables with the local rank of a process, by launcher: one table for Python and for rendered scripts.

STEP = "SLURM_STEP_NUM_TASKS"
"""Set in a Slurm step, but not in a batch script, where `SLURM_LOCALID` is 0 without a meaning."""

LOCAL_RANK = (
    "LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "MVP_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "DLRUN_LOCAL_RANK",
    "PALS_LOCAL_RANKID",
    "PMI_LOCAL_RANK",
    "FLUX_TASK_LOCAL_ID",
    "SLURM_LOCALID",
)
"""Variables with a process's rank on its node, the innermost launcher's first.

torchrun (and DeepSpeed's and Accelerate's launchers), Open MPI, MVAPICH 2 and 3, MPICH's and Intel MPI's Hydra, dlrun,
PALS (two names), schedulers' own. A launcher started by a batch script or step passes the outer launcher's variables to its ranks
unchanged: under `mpirun` in a Slurm job `SLURM_LOCALID` is 0 in every rank. torchrun is started by MPI's launchers,
never the other way round, and both are started by those of schedulers.
"""


def variables(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The variables that hold a local rank, the innermost launcher's first by the table; empty if no launcher set one.

    With different values only one is of the launcher that started this process, which the environment alone does not tell:
    a variable may also be left over in a shell (`dlrun.affinity.bind.launcher_variable`).
    """
    return tuple(
        name
        for name in LOCAL_RANK
        if digits(environment.get(name, "")) and (name != "SLURM_LOCALID" or environment.get(STEP))
    )
