"""Binds this process as a rank of a placement, and starts the ranks of a node with their binding."""

from __future__ import annotations

import ctypes
import os
import platform
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from dlrun.effects.affinity.probe import memory_policy
from dlrun.errors import Invalid, OperationFailed
from dlrun.model.cpuset import format_list
from dlrun.model.local_rank import variable
from dlrun.model.placement import Placement, RankPlacement
from dlrun.render.affinity.settings import Job, settings

SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237, "ppc64le": 261}
"""System call numbers (Linux `unistd.h` of each architecture); libnuma would be one more thing to install."""

GRACE = 3.0
"""Seconds between SIGTERM and SIGKILL."""

POLL = 0.05
"""Seconds between looks at running ranks, where the system cannot tell when one ends."""

MPOL_PREFERRED, MPOL_BIND, MPOL_PREFERRED_MANY = 1, 2, 5
"""Linux `mempolicy.h`; the last is there from 5.15 on."""


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


def bind(rank: RankPlacement) -> None:
    """Bind this process to the rank's mask and memory; raises OperationFailed if the system refuses."""
    try:
        os.sched_setaffinity(0, rank.mask)
    except OSError as error:
        raise OperationFailed(
            f"rank {rank.rank} cannot be bound to CPUs {format_list(rank.mask)}: {error.strerror}",
            help="the allowed CPUs have changed since they were read; place again inside the job",
        ) from None
    kept = os.sched_getaffinity(0)
    if kept != set(rank.mask):
        raise OperationFailed(
            f"rank {rank.rank} was bound to CPUs {format_list(kept)} instead of {format_list(rank.mask)}: "
            "the others are not granted to this job"
        )
    set_memory(rank.memory.policy, rank.memory.nodes)


def set_memory(policy: str, nodes: Sequence[int]) -> None:
    """Set the memory policy of this process: `strict` or `preferred` on these nodes, or `none`.

    Does nothing for a policy or an architecture that it does not know. Raises OperationFailed if the
    system refuses.
    """
    number = SET_MEMPOLICY.get(platform.machine())
    modes = {
        "none": 0,
        "strict": MPOL_BIND,
        "preferred": MPOL_PREFERRED if len(nodes) == 1 else MPOL_PREFERRED_MANY,
    }
    if number is None or policy not in modes:
        return
    words = max(nodes, default=0) // 64 + 1
    mask = (ctypes.c_ulong * words)()
    for node in nodes:
        mask[node // 64] |= 1 << (node % 64)
    # The kernel counts bits up to and without the last.
    if ctypes.CDLL(None, use_errno=True).syscall(number, modes[policy], mask, words * 64 + 1) != 0:
        why = os.strerror(ctypes.get_errno())
        raise OperationFailed(
            f"memory policy {policy} {format_list(nodes)} was refused: {why}",
            help="`--membind none` leaves it out",
        )


def become(placement: Placement, rank: RankPlacement, job: Job, command: Sequence[str]) -> NoReturn:
    """Bind this process as the rank and turn into the command; what the launcher set stays as it is.

    Raises Invalid if there is no such program, OperationFailed if the system refuses the binding.
    """
    bind(rank)
    own = {s.name: s.value for s in settings(placement, job) if s.rank in (None, rank.rank)}
    try:
        os.execvpe(command[0], list(command), {**os.environ, **own})  # noqa: S606 - no shell is wanted
    except OSError as error:
        message = f"cannot run `{command[0]}`: {error.strerror}"
        raise Invalid(message) from None


def environment_of(placement: Placement, rank: RankPlacement, job: Job, port: int) -> dict[str, str]:
    """Variables of one rank started here: the placement's, and what torch and MPI-less programs expect."""
    found = {s.name: s.value for s in settings(placement, job) if s.rank in (None, rank.rank)}
    number = str(rank.rank)
    return {
        **found,
        "DLRUN_LOCAL_RANK": number,
        "LOCAL_RANK": number,
        "RANK": number,
        "WORLD_SIZE": str(len(placement.ranks)),
        "LOCAL_WORLD_SIZE": str(len(placement.ranks)),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def start_all(
    placement: Placement, job: Job, command: Sequence[str], *, capture: bool
) -> list[subprocess.Popen[str]]:
    """Start the command once for each rank, bound, each in a process group of its own.

    With `capture` standard output is a pipe. Raises Invalid if there is no such program, OperationFailed if
    a rank cannot be bound; ranks already started are then killed.
    """
    port = free_port()
    started: list[subprocess.Popen[str]] = []
    try:
        for rank in placement.ranks:
            environment = {**os.environ, **environment_of(placement, rank, job, port)}
            with bound(rank):
                started += [_start(command, environment, capture=capture)]
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


def run_all(placement: Placement, job: Job, command: Sequence[str]) -> int:
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


def _start(command: Sequence[str], environment: Mapping[str, str], *, capture: bool) -> subprocess.Popen[str]:
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


@contextmanager
def bound(rank: RankPlacement) -> Iterator[None]:
    """This thread bound as the rank while the block runs: what is started there inherits it."""
    cpus, (policy, nodes) = os.sched_getaffinity(0), memory_policy()
    try:
        bind(rank)
        yield
    finally:
        os.sched_setaffinity(0, cpus)
        set_memory(policy, nodes)


def free_port() -> int:
    """A TCP port of the loopback interface that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
