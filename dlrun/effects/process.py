"""Runs one client program: no shell, no terminal, a time limit, its output captured."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from dlrun.errors import Invalid, OperationFailed
from dlrun.model.record import record

PATIENCE = 120.0
"""Seconds that a client may take: a busy controller can need a minute (Slurm's MessageTimeout is 10 s, tried again)."""


@record(frozen=True, slots=True, kw_only=True)
class Completed:
    """The output of a client and how it ended; a negative return code is the signal that ended it."""

    returncode: int
    stdout: str
    stderr: str


class Runner(Protocol):
    """Anything that runs arguments like `run`, here or on a login node."""

    def __call__(self, argv: Sequence[str], /) -> Completed:
        """Run to the end."""
        ...


class NotInstalled(Invalid):
    """The program is not here."""


def run(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    text: str | None = None,
    timeout: float = PATIENCE,
    answer: Path | None = None,
) -> Completed:
    """Run a program to its end, with `text` on its standard input.

    What it prints goes over the content of the file `answer`, if given: it is there whatever becomes of this process.

    Raises NotInstalled if there is no such program, OperationFailed if it cannot be started or is still
    running after `timeout` seconds; then it is killed with all its children.
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
        raise OperationFailed(f"cannot run `{argv[0]}`: {error.strerror}") from None
    finally:
        if file is not None:
            file.close()
    with process:
        try:
            stdout, stderr = process.communicate(text, timeout=timeout)
        except subprocess.TimeoutExpired:
            _kill(process)
            raise OperationFailed(
                f"`{argv[0]}` did not answer within {timeout:g} s",
                help="try again later; see the cluster's status page",
            ) from None
        except BaseException:
            _kill(process)
            raise
    if answer is not None:
        stdout = answer.read_text(encoding="utf-8", errors="surrogateescape").strip("\n")
    return Completed(returncode=process.returncode, stdout=stdout, stderr=stderr)


def _kill(process: subprocess.Popen[str]) -> None:
    """Kill the program and what it started: its session is its own."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
