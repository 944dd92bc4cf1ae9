"""Run one client program: without shell and terminal, with a time limit, its output captured."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from dlrun.errors import DlrunError, Invalid, OperationFailed
from dlrun.grouping import grouped
from dlrun.model.record import record
from dlrun.model.text import digits

TIMEOUT = 120.0
"""Time limit of a client in seconds: a busy controller can need a minute (Slurm's MessageTimeout is 10 s, with retries)."""


@record(frozen=True, slots=True, kw_only=True)
class Completed:
    """Output and return code of a client; a negative code is the signal that ended it."""

    returncode: int
    stdout: str
    stderr: str


class Runner(Protocol):
    """A function like `run`, for this host or a login node."""

    def __call__(self, argv: Sequence[str], /) -> Completed:
        """Run to the end."""
        ...


def answer(runner: Runner, argv: Sequence[str]) -> str:
    """What a client prints that is asked for more than is needed; empty if it fails or does not answer, or without a query."""
    try:
        done = runner(argv) if argv else None
    except DlrunError:
        return ""
    return done.stdout if done is not None and done.returncode == 0 else ""


class NotInstalled(Invalid):
    """The program is not installed or not on PATH."""


class NoAnswer(OperationFailed):
    """The program ran longer than its time limit, and was killed."""


def not_started(program: str, error: OSError) -> OperationFailed:
    """The error of a program that cannot be started: not executable, without its interpreter, for another machine."""
    return OperationFailed(
        f"cannot run `{program}`: {error.strerror}",
        help=f"`type -a {shlex.quote(Path(program).name)}` shows which file that is; it must start in this shell",
    )


def run(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    text: str | None = None,
    timeout: float = TIMEOUT,
    answer: Path | None = None,
) -> Completed:
    """Run a program to its end, with `text` on its standard input.

    answer: an existing file for standard output, so that a job id is on disk even if this process is killed.
    Raises NotInstalled without the program, OperationFailed if it cannot be started, and NoAnswer if it runs longer than
    `timeout` seconds; then it is killed with all its children.
    """
    file = None if answer is None else answer.open("r+b")
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL if text is None else subprocess.PIPE,
            stdout=subprocess.PIPE if file is None else file,
            stderr=subprocess.PIPE,
            env=None if environment is None else dict(environment),
            cwd=directory,
            # For `stop_all`, and so that Ctrl-C in the terminal does not end a submission halfway.
            start_new_session=True,
            encoding="utf-8",
            errors="surrogateescape",
        )
    except FileNotFoundError:
        if directory is not None and not directory.is_dir():
            raise OperationFailed(f"the directory `{directory}` does not exist any more") from None
        raise NotInstalled(
            f"`{argv[0]}` is not installed here, or not on PATH",
            help="run this on the cluster's login node, or load the module that has it",
        ) from None
    except OSError as error:
        raise not_started(argv[0], error) from None
    finally:
        if file is not None:
            file.close()
    with process:
        try:
            stdout, stderr = process.communicate(text, timeout=timeout)
        except subprocess.TimeoutExpired:
            stop_all(process)
            raise NoAnswer(
                f"`{argv[0]}` did not answer within {timeout:g} s",
                help="try again later; see the cluster's status page",
            ) from None
        except BaseException:
            stop_all(process)
            raise
    if answer is not None:
        stdout = answer.read_text(encoding="utf-8", errors="surrogateescape").strip("\n")
    return Completed(returncode=process.returncode, stdout=stdout, stderr=stderr)


def stop_all(process: subprocess.Popen[Any]) -> None:
    """Kill a program that leads a session of its own, with its children."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def processes() -> list[int]:
    """The ids of all processes that this user can see."""
    return [int(name) for name in os.listdir("/proc") if digits(name)]  # noqa: PTH208 - names alone


def command_line(pid: int) -> list[str]:
    """The arguments of a process; empty if it is gone, or has just been made."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
    except OSError:
        return []
    return [os.fsdecode(word) for word in words]


def descendants(pid: int) -> list[int]:
    """A process and every process below it, each before its children."""
    children = grouped((int(fields[1]), child) for child in processes() if (fields := _status(child)))
    pids = [pid]
    for parent in pids:
        pids += children.get(parent, ())
    return pids


def start_time(pid: int, *, zombie: bool = False) -> str:
    """The kernel's start time of a process (field 22 of /proc/PID/stat), empty if it is gone or, without `zombie`, a zombie.

    In ticks since the boot: unlike a time of day, the same after the clock was set.
    """
    fields = _status(pid)
    return "" if not fields or (fields[0] == "Z" and not zombie) else fields[19]


def _status(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the third on: state, parent, …; empty if the process is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return []
    return stat.rpartition(")")[2].split()
