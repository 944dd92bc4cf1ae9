"""Two real hosts for framework runs, and jobs on them: rendered by dlrun, started by Slurm or as PBS starts a script.

The hosts are those of `tests.cluster`: their own network, processes, names and `/tmp`, sshd between them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from dlrun.jobs.records import directories
from dlrun.jobs.submission.files import files
from dlrun.jobs.submission.prepare import prepare
from dlrun.render.written_names import written_names
from tests.cluster import Cluster, ClusterSpec, NodeType, init
from tests.frameworks.install import CACHE, RECIPES, interpreter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

REPOSITORY = Path(__file__).resolve().parents[2]
USER = "alice"
SITE = """\
name: hosts
scheduler: {{type: {scheduler}}}
launcher: {launcher}
fabric: {{name: ethernet, interfaces: [eth0]}}
{more}"""


class Hosts(Cluster):
    """Nodes `n1`, `n2`, … with two cores each, where the interpreters of all recipes can be run."""

    def __init__(self, name: str, count: int = 2, node: NodeType | None = None) -> None:
        node = node or NodeType(count=count, sockets=1, cores=2)
        super().__init__(ClusterSpec(node_types=(node,), users=(USER,), sshd=True), name)

    def _build(self) -> None:
        super()._build()
        CACHE.mkdir(parents=True, exist_ok=True)  # hosts show it before the first environment is made
        programs = {interpreter(recipe.python) for recipe in RECIPES.values()} - {None}
        prefixes = {Path(str(program)).resolve().parents[1] for program in programs}
        for host in self.spec.hosts:
            init.write(self.root, self.spec, host, [*prefixes, CACHE])

    def left(self) -> list[str]:
        """Command lines of what still runs on the nodes as the user."""
        command = f"ps -u {USER} -o pid=,args= || true"
        return [
            f"{host}: {line.strip()}"
            for host in self.spec.nodes
            for line in self.on(host, command, user="root").stdout.splitlines()
        ]


@dataclass(kw_only=True)
class Job:
    """A job directory on the hosts, and its run."""

    hosts: Hosts
    directory: Path
    nodes: int
    scheduler: str = "openpbs"
    process: subprocess.Popen[str] | None = None
    begun: float = 0.0
    environment: dict[str, str] = field(default_factory=dict)

    def start(self) -> Job:
        """Hand job.sh to Slurm, or run it on the first node, told about the job as PBS would."""
        if self.scheduler == "slurm":
            self.process = self.hosts.popen(
                "login", ["sbatch", "--wait", "job.sh"], cwd=self.directory, stderr=subprocess.STDOUT
            )
            return self
        nodefile = self.directory / "nodefile"
        nodefile.write_text("".join(f"{host}\n" for host in self.hosts.spec.nodes[: self.nodes]))
        environment = {"PBS_JOBID": f"{os.getpid()}.hosts", "PBS_NODEFILE": str(nodefile), **self.environment}
        self.begun = time.monotonic()
        self.process = self.hosts.popen(
            "n1", ["bash", "job.sh"], env=environment, cwd=self.directory, stderr=subprocess.STDOUT
        )
        return self

    def wait(self, seconds: float) -> int:
        """Its exit code; a job that takes longer is killed, which fails the test with what it had said."""
        assert self.process is not None
        try:
            self.output, _ = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise AssertionError(f"not done after {seconds:.0f} s:\n{self.said()}") from None
        if self.scheduler == "slurm":
            self.output += self.log("job")
        return self.process.returncode

    @cached_property
    def output(self) -> str:
        """What job.sh printed; set when it has ended."""
        return ""

    def log(self, name: str) -> str:
        """What one process printed, e.g. of `rank-1`; empty if it has not begun."""
        path = self.directory / "logs" / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def logs(self, role: str = "rank") -> list[str]:
        """What each process of a role printed, in order of rank."""
        found = self.directory.glob(f"logs/{role}-*.log")
        in_order = sorted(found, key=lambda path: int(path.stem.rpartition("-")[2]))
        return [path.read_text(errors="replace") for path in in_order]

    def said(self) -> str:
        """Everything, for the message of a failed test."""
        parts = [f"job: {self.output}"]
        parts += [
            f"--- {path.name}\n{path.read_text(errors='replace')[-3000:]}"
            for path in sorted(self.directory.glob("logs/*.log"))
        ]
        return "\n".join(parts)

    def await_text(self, name: str, text: str, seconds: float = 240) -> None:
        """Wait until a process has printed `text`."""
        deadline = time.monotonic() + seconds
        while text not in self.log(name):
            assert self.process is not None
            ended = self.process.poll() is not None
            if ended or time.monotonic() > deadline:
                if ended:
                    self.wait(60)
                raise AssertionError(f"{name} never said {text!r}:\n{self.said()}")
            time.sleep(0.05)

    def kill(self, role: str, rank: int) -> None:
        """SIGKILL the program (not its rank.sh) that is a role's process `rank`, as soon as there is one."""
        deadline = time.monotonic() + 120
        while not (victims := self._programs(role, rank)):
            assert time.monotonic() < deadline, f"no process is {role} {rank}:\n{self.said()}"
            time.sleep(0.1)
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _programs(self, role: str, rank: int) -> list[int]:
        """The processes, but for bash, that belong to a role's process `rank`."""
        wanted = {f"DLRUN_JOB_DIR={self.directory}", f"DLRUN_ROLE={role}", f"DLRUN_RANK={rank}"}
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                environment = (entry / "environ").read_bytes().decode(errors="replace").split("\0")
                if wanted <= set(environment) and (entry / "comm").read_text().strip() != "bash":
                    found.append(int(entry.name))
        return found


def make_job(
    hosts: Hosts,
    name: str,
    spec: Path,
    *,
    launcher: str = "{name: ssh}",
    sets: Sequence[str] = (),
    more: str = "",
    environment: Mapping[str, str] | None = None,
) -> Job:
    """A job directory for a spec, as a submission writes it."""
    directory = hosts.home(USER) / name
    shutil.rmtree(directory, ignore_errors=True)
    site = hosts.root / f"{name}.yaml"
    scheduler = "slurm" if "srun" in launcher else "openpbs"
    site.write_text(SITE.format(scheduler=scheduler, launcher=launcher, more=more))
    prepared = prepare(spec, sets=[f"directory={REPOSITORY}", *sets], site=str(site))
    directories.create(
        directory, files(prepared.plan, prepared.inputs, directory), written_names(prepared.plan)
    )
    owner = hosts.home(USER).stat()
    subprocess.run(["chown", "-R", f"{owner.st_uid}:{owner.st_gid}", str(directory)], check=True)
    nodes = prepared.plan.request.nodes
    return Job(
        hosts=hosts,
        directory=directory,
        nodes=nodes,
        scheduler=scheduler,
        environment=dict(environment or {}),
    )
