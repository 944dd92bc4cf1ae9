"""Programs of this machine that tests use: each is tried first, as the test will start it, else the test is skipped.

A program on PATH may be a version manager's shim that needs another program, a home or a setting, a wrapper of
something that is gone, another version, another program of that name, or one that never answers.
"""

from __future__ import annotations

import os
import pwd
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

SECONDS = float(os.environ.get("DLRUN_TEST_TRIAL", "60"))
"""How long a trial may take. A machine that is busy needs a few seconds for the slowest, a browser."""

MOST = 1 << 20
"""Bytes that a trial may print."""


@dataclass(frozen=True)
class Trial:
    """What a program is given, in an empty directory, and what it must print and leave there.

    `names` are tried one after another where several programs do; `package` is Debian's.
    """

    names: tuple[str, ...]
    arguments: tuple[str, ...]
    says: str = "works"
    code: int = 0
    input: str = ""
    makes: str = ""
    package: str = ""


VERSION = ("--version",)
ECHO = ("echo", "works")
TRIALS = {
    "apptainer": Trial(("apptainer",), VERSION, says="apptainer version"),
    "browser": Trial(
        ("chromium", "chromium-browser", "google-chrome"),
        ("--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=profile", "--dump-dom", "data:text/html,works"),
        package="chromium",
    ),
    "bwrap": Trial(("bwrap",), ("--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", *ECHO), package="bubblewrap"),
    "cc": Trial(("cc", "gcc"), ("-shared", "-fPIC", "-x", "c", "-o", "a.so", "-"), says="", input="int works;\n",
                makes="a.so", package="gcc"),
    "cmake": Trial(("cmake",), VERSION, says="cmake version", package="cmake"),
    "conda": Trial(("conda",), ("info", "--json"), says='"conda_version"'),
    "flux": Trial(("flux",), ("version",), says="commands:"),
    "git": Trial(("git",), VERSION, says="git version", package="git"),
    "java": Trial(("java",), ("-version",), says="version", package="default-jre-headless"),
    "ip": Trial(("ip",), ("-oneline", "link"), says="lo:", package="iproute2"),
    "mkfs.ext4": Trial(("mkfs.ext4",), ("-q", "-m", "0", "image", "4M"), says="", makes="image", package="e2fsprogs"),
    "mksquashfs": Trial(("mksquashfs",), ("-version",), says="mksquashfs version", package="squashfs-tools"),
    "mount": Trial(("mount",), VERSION, says="util-linux", package="mount"),
    "mpicxx": Trial(("mpicxx",), ("-show",), says="-lmpi", package="libopenmpi-dev"),
    "mpiexec.hydra": Trial(("mpiexec.hydra",), ("-n", "1", *ECHO), package="mpich"),
    "mpirun": Trial(("mpirun",), ("-np", "1", *ECHO), package="openmpi-bin"),
    "mpirun.openmpi": Trial(("mpirun.openmpi",), ("-np", "1", "--bind-to", "none", *ECHO), package="openmpi-bin"),
    "numactl": Trial(("numactl",), ("--membind=0", "--", *ECHO), package="numactl"),
    "nvidia-smi": Trial(("nvidia-smi",), ("-L",), says="GPU 0:"),
    "setpriv": Trial(("setpriv",), ("--bounding-set=-dac_override", "--inh-caps=-dac_override", *ECHO)),
    "shellcheck": Trial(("shellcheck",), ("--external-sources", "--shell=bash", "-"), says="SC2086", code=1,
                        input="echo $1\n", package="shellcheck"),
    "squashfuse": Trial(("squashfuse_ll", "squashfuse"), VERSION, says="squashfuse", code=254, package="squashfuse"),
    "sshfs": Trial(("sshfs",), VERSION, says="SSHFS version", package="sshfs"),
    "strace": Trial(("strace",), ("-f", "-e", "trace=%file", "true"), says="execve(", package="strace"),
    "tar": Trial(("tar",), VERSION, says="GNU tar", package="tar"),
    "torchrun": Trial(("torchrun",), ("--help",), says="--nproc"),
    "umount": Trial(("umount",), VERSION, says="util-linux", package="mount"),
    "unsquashfs": Trial(("unsquashfs",), ("-version",), says="unsquashfs version", code=1, package="squashfs-tools"),
    "unshare": Trial(("unshare",), ("--mount", *ECHO)),
    "zip": Trial(("zip",), ("-v",), says="Info-ZIP", package="zip"),
    "zstd": Trial(("zstd",), VERSION, says="Zstandard", package="zstd"),
}  # fmt: skip
"""By the name that a test gives to `pytest.mark.needs`, or to `need`."""

AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
_CRASHED = "exit code -"
_faults: dict[tuple[tuple[str, ...], str], str] = {}  # a program that hangs is waited for once


def fault(
    command: Sequence[str | Path],
    says: str = "works",
    *,
    code: int = 0,
    environment: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    text: str = "",
) -> str:
    """What is wrong with the program of this command line: it is run, and must print `says` and end with `code`."""
    words = tuple(map(str, command))
    given = dict(os.environ if environment is None else environment)
    key = (words, given.get("PATH", ""))
    if key not in _faults:
        wrong = _tried(words, says, code, given, cwd, text)
        if wrong.startswith(
            _CRASHED
        ):  # what does not work here ends so again; MPICH's mpiexec may get a SIGPIPE of its own
            wrong = _tried(words, says, code, given, cwd, text)
        if not wrong:
            return ""
        _faults[key] = f"`{words[0]}` does not work here: {wrong}"
    return _faults[key]


def _tried(words, says, code, environment, cwd, text) -> str:
    deadline = time.monotonic() + SECONDS
    try:
        running = subprocess.Popen(
            words, env=environment, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            bufsize=0, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        return error.strerror or str(error)
    with running:
        try:
            with suppress(BrokenPipeError), running.stdin:
                running.stdin.write(text.encode())
            printed = _output(running.stdout.fileno(), deadline)
            running.wait(max(0, deadline - time.monotonic()))
        except (TimeoutError, subprocess.TimeoutExpired):
            return f"no answer in {SECONDS:g} s"
        except OverflowError:
            return f"it printed more than {MOST} bytes"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)  # with what a wrapper has started
    if running.returncode == code and says in printed:
        return ""
    last = printed.strip().splitlines()[-1:] or ["it printed nothing"]
    return f"exit code {running.returncode}, {last[0][:200]}"


def _output(stream: int, deadline: float) -> str:
    """All that a program prints; raises TimeoutError after `deadline`, OverflowError for one that prints without end."""
    printed = b""
    while select.select([stream], [], [], max(0, deadline - time.monotonic()))[0]:
        if not (read := os.read(stream, 1 << 16)):
            return printed.decode(errors="replace")
        printed += read
        if len(printed) > MOST:
            raise OverflowError
    raise TimeoutError


def path_of(name: str, *, path: str | None = None) -> tuple[str, str]:
    """The path of a program that works, or an empty text and why there is none."""
    trial = TRIALS[name]
    wrong = [f"`{name}` is not installed"]
    if trial.package:
        wrong = [f"{wrong[0]} (Debian: `apt install {trial.package}`)"]
    for candidate in trial.names:
        if (program := shutil.which(candidate, path=path)) is None:
            continue
        environment = os.environ | (AS_ROOT if candidate.startswith("mpirun") else {})
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
            told = fault(
                [program, *trial.arguments], trial.says, code=trial.code, cwd=place, text=trial.input,
                environment=environment if path is None else environment | {"PATH": path},
            )  # fmt: skip
            if not told and trial.makes and not Path(place, trial.makes).exists():
                told = f"`{program}` does not work here: it made nothing"
        if not told:
            return program, ""
        wrong.append(told)
    return "", wrong[-1]


def works(name: str, *, path: str | None = None) -> bool:
    """True if a program is here and works."""
    return bool(path_of(name, path=path)[0])


def need(name: str, *, path: str | None = None) -> str:
    """The path of a program that works; where there is none, the test is skipped, with the reason."""
    program, wrong = path_of(name, path=path)
    if not program:
        pytest.skip(wrong)
    return program


def with_venv() -> str:
    """PATH with the programs of this Python's environment first, some of which dependency groups bring."""
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def python(minor: int) -> str:
    """A Python 3 of this minor version, from PATH or pyenv's versions; the test is skipped where there is none.

    It is one that needs no variable: tests start it without.
    """
    versions = Path(pwd.getpwuid(os.getuid()).pw_dir) / ".pyenv" / "versions"
    wrong = f"there is no Python 3.{minor} here"
    for place in [*os.environ.get("PATH", "").split(os.pathsep), *map(str, sorted(versions.glob("*/bin")))]:
        if program := shutil.which(f"python3.{minor}", path=place):
            told = fault(
                [program, "-c", "import sys; print('Python %d.%d' % sys.version_info[:2])"],
                f"Python 3.{minor}\n",
                environment={},
            )
            if not told:
                return program
            wrong = told
    pytest.skip(wrong)


def python_of_all() -> str:
    """The Python of the system, which every user can start; the test is skipped where there is none."""
    program = shutil.which("python3", path="/usr/bin:/usr/local/bin:/bin")
    if program is None:
        pytest.skip("there is no /usr/bin/python3 that other users can run")
    if told := fault([program, "-c", "print('works')"]):
        pytest.skip(told)
    return program
