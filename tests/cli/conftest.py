"""dlrun as its users run it: a process of its own, in a directory of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.preloaded import Server

DLRUN = (sys.executable, "-c", "from dlrun.cli.main import main; main()")


@dataclass(frozen=True)
class Ran:
    """What a run of dlrun printed, and its exit code."""

    code: int
    stdout: str
    stderr: str


class Dlrun:
    """Runs dlrun in `place`; whatever it starts carries a mark by which it is found again."""

    def __init__(self, place: Path, server: Server) -> None:
        self.place, self.server = place, server
        self.jobs = Path(os.environ["DLRUN_JOBS"])
        self.mark = f"MARK_{uuid.uuid4().hex}"

    def environment(self, **more: str | None) -> dict[str, str]:
        merged = {**os.environ, self.mark: "1", **more}
        return {name: value for name, value in merged.items() if value is not None}

    def start(self, *arguments: str | Path, env: dict | None = None, **options) -> subprocess.Popen:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
        return subprocess.Popen(
            [*DLRUN, *map(str, arguments)],
            cwd=self.place,
            env=self.environment(**(env or {})),
            text=True,
            **pipes,
        )

    def __call__(
        self, *arguments: str | Path, code: int | None = 0, env: dict | None = None, **options
    ) -> Ran:
        if options:
            with self.start(*arguments, env=env, **options) as process:
                stdout, stderr = process.communicate(timeout=300)
                status = process.returncode
        else:
            words, variables = list(map(str, arguments)), self.environment(**(env or {}))
            status, stdout, stderr = self.server.run(words, self.place, variables, 300)
        assert "Traceback" not in (stderr or "")
        assert code in (None, status), f"exit code {status}\n{stdout}\n{stderr}"
        return Ran(status, stdout, stderr)

    def spec(self, text: str, name: str = "spec.yaml") -> str:
        """Write a spec; without a site it is one for this machine, without a name it is `run`."""
        text = text if "name:" in text else f"name: run\n{text}"
        (self.place / name).write_text(text if "site:" in text else f"{text}\nsite: workstation\n", "utf-8")
        return name

    def submit(self, text: str, *arguments: str, **options) -> Path:
        """Submit a spec; the job's directory."""
        ran = self("submit", self.spec(text), *arguments, **options)
        return Path(ran.stdout.split("job directory: ")[1].splitlines()[0])

    def alive(self) -> list[str]:
        """The command lines of all processes that dlrun started, or that those started."""
        found = []
        for process in Path("/proc").iterdir():
            if process.name.isdigit():
                try:
                    marked = f"{self.mark}=1".encode() in (process / "environ").read_bytes().split(b"\0")
                    ended = (process / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
                    line = (process / "cmdline").read_text().replace("\0", " ").strip()
                except OSError:
                    continue
                if marked and not ended:
                    found.append(f"{process.name} {line}")
        return found

    def pid_of(self, part: str) -> int:
        """The one process of ours whose command line has this part."""
        found = [line for line in self.alive() if part in line.partition(" ")[2]]
        assert len(found) == 1, found
        return int(found[0].partition(" ")[0])


def wait_for(condition: Callable[[], object], seconds: float = 300) -> object:
    """What the condition returns once it is true; fails after so many seconds, which only what hangs takes."""
    end = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)
    return result


@pytest.fixture(scope="session")
def preloaded() -> Iterator[Server]:
    """One server for all runs of this process."""
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def dlrun(tmp_path, preloaded) -> Iterator[Dlrun]:
    """dlrun in an empty directory; nothing that it started outlives the test."""
    running = Dlrun(tmp_path, preloaded)
    yield running
    for line in running.alive():
        with suppress(ProcessLookupError):
            os.kill(int(line.partition(" ")[0]), signal.SIGKILL)
