"""Drives dlrun on a test cluster as one of its users would: files in a shared directory, the program on PATH."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import yaml

from tests.cluster import Cluster, ClusterSpec, NodeType, Partition
from tests.cluster.errors import ClusterError
from tests.cluster.hosts import await_true, rest

PYTHON = Path(sys.executable).parent
SLURM_SITE: dict[str, Any] = {
    "name": "test-slurm",
    "scheduler": {"type": "slurm", "version": "22.05", "memory": "none"},
    "launcher": {"name": "srun"},
    "partitions": {"work": {"default": True, "node_type": "n"}},
    "node_types": {"n": {"topology": {"packages": 2, "cores": 4}}},
    "fabric": {"name": "ethernet", "interfaces": ["eth0"]},
}
"""Nodes of two packages with four cores each."""
LISTED = {
    "slurm": (
        "squeue --noheader --format=%%A --jobs=%s --states=pending,running,suspended,configuring,completing",
        r"^%s$",
    ),
    "gridengine": ("qstat -u '*' # %s", r"^ *%s "),
}
"""A command that asks the scheduler alone for a job, and the line that it prints while the job waits or runs."""


class User:
    """A user of a cluster, working in a directory of the shared file system."""

    def __init__(self, cluster: Cluster, site: dict[str, Any], name: str = "alice") -> None:
        self.cluster = cluster
        self.name = name
        self.site = site
        self.directory = cluster.shared / "scratch" / f"{name}-{time.monotonic_ns()}"
        self.directory.mkdir(mode=0o777)
        self.directory.chmod(0o777)
        self.write("site.yaml", site)
        self._places = dict[str, Path]()

    def write(self, name: str, content: dict[str, Any] | str) -> Path:
        """A file in the user's directory, YAML from data."""
        path = self.directory / name
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False))
        path.chmod(0o644)
        return path

    def dlrun(
        self, *words: str, env: dict[str, str] | None = None, timeout: float = 180, code: int | None = 0
    ) -> CompletedProcess[str]:
        """Run dlrun on the login host; `code` is the exit code that must come, None for any."""
        site = {"DLRUN_SITE": str(self.directory / "site.yaml")}
        line = ["bash", "-c", 'PATH="$0:$PATH" exec dlrun "$@"', str(PYTHON), *words]
        done = self.cluster.on(
            "login",
            line,
            user=self.name,
            env={**site, **(env or {})},
            cwd=str(self.directory),
            timeout=timeout,
        )
        if code is not None:
            assert done.returncode == code, (
                f"dlrun {' '.join(words)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
            )
        return done

    def submit(self, spec: dict[str, Any], *words: str, **how: Any) -> str:
        """Submit a spec; returns the scheduler's job id."""
        how.setdefault("code", 0)
        path = self.write(f"{time.monotonic_ns()}.yaml", {"name": "test", "framework": "torch", **spec})
        return self.dlrun("submit", str(path), "--parsable", *words, **how).stdout.strip()

    def state(self, job_id: str) -> list[dict[str, Any]]:
        """What `dlrun status --json` says of a job: one entry a run."""
        (job,) = json.loads(self.dlrun("status", job_id, "--json").stdout)["jobs"]
        return job["runs"]

    def ended(self, job_id: str, within: float = 120) -> list[dict[str, Any]]:
        """Wait for a job's end; returns its runs."""
        deadline = time.monotonic() + within
        # Many tests wait beside each other: dlrun itself is asked once the scheduler lists the job no more.
        while job_id.isdigit() and time.monotonic() < deadline and self._listed(job_id):
            time.sleep(0.3)
        while True:
            began = time.monotonic()
            runs = self.state(job_id)
            if all(run["state"] not in ("pending", "held", "running", "ending", "unknown") for run in runs):
                return runs
            assert time.monotonic() < deadline, runs
            rest(began, 0.5)

    def _listed(self, job_id: str) -> bool:
        command, line = LISTED.get(self.cluster.spec.scheduler, ("true # %s", "(?!)%s"))
        said = self.cluster.on("login", ["bash", "-c", command % job_id], user=self.name).stdout
        return re.search(line % job_id, said, re.MULTILINE) is not None

    def running(self, job_id: str, within: float = 60) -> None:
        """Wait until the scheduler has started a job; its script may have done nothing yet."""
        await_true(lambda: self.state(job_id)[0]["state"] == "running", within, f"job {job_id} to run")

    def job_dir(self, job_id: str) -> Path:
        """The job's directory, readable from here: where an id's job was found it stays."""
        if job_id in self._places:
            return self._places[job_id]
        (job,) = json.loads(self.dlrun("status", job_id, "--json").stdout)["jobs"]
        place = Path(job["directory"])
        if job_id[:1].isdigit():
            self._places[job_id] = place
        return place

    def why(self, job_id: str) -> dict[str, Any]:
        """The one answer of `dlrun why --json`."""
        (answer,) = json.loads(self.dlrun("why", job_id, "--json").stdout)["why"]
        return dict(answer)

    def log(self, job_id: str, name: str = "job") -> str:
        """A log of the job, empty while there is none."""
        path = self.job_dir(job_id) / "logs" / f"{name}.log"
        return path.read_text() if path.exists() else ""

    def hosts(self, job_id: str) -> list[str]:
        """The nodes that the job uses, the first one first, as soon as its script has written them down."""
        path = self.job_dir(job_id) / "hosts"
        await_true(lambda: path.exists() and path.read_text() != "", 60, f"{path}")
        return path.read_text().split()

    def begun(self, job_id: str, rank: int = 0) -> None:
        """Wait until a rank has said something."""
        await_true(lambda: self.log(job_id, f"rank-{rank}") != "", 60, f"rank {rank} to begin")

    def left_nothing(self, job_id: str, nodes: Iterable[str]) -> None:
        """Wait until no process of the job is left on these nodes; none of its own files may be half there."""
        place = self.job_dir(job_id)
        look = f"grep -lszF -- DLRUN_JOB_DIR={place} /proc/[0-9]*/environ"

        def gone() -> bool:
            return not any(self.cluster.on(node, look, user="root").stdout for node in nodes)

        try:
            await_true(gone, 60, "every process of the job to be gone")
        except ClusterError as error:
            tree = ["ps", "-eo", "pid,ppid,stat,etimes,wchan:20,args", "--forest", "-ww"]
            left = {node: self.cluster.on(node, tree, user="root").stdout for node in nodes}
            raise ClusterError(
                "\n".join([str(error), *(f"{n}:\n{text}" for n, text in left.items())])
            ) from None
        for name in ("state.json", "outcome.json", "submission.json", "plan.json"):
            if (place / name).exists():
                assert json.loads((place / name).read_text())
        assert not list(place.glob(".state.*"))
        assert not list((place / "failures").glob("*.new"))

    def scontrol(self, job_id: str) -> dict[str, str]:
        """What Slurm itself holds of a job."""
        done = self.cluster.on("login", ["scontrol", "show", "job", "-o", job_id], user="root", check=True)
        return dict(word.partition("=")[::2] for word in done.stdout.split() if "=" in word)


def whole(steps: int) -> float:
    """The loss of `tests/steps.py` after a training that was never interrupted."""
    loss = 1.0
    for step in range(1, steps + 1):
        loss = loss * 0.99 + 0.001 * (step % 7)
    return loss


def bash(script: str) -> list[str]:
    """A training command that is a line of bash."""
    return ["bash", "-c", script]


@contextmanager
def on_openpbs(name: str, site: dict[str, Any]) -> Iterator[User]:
    """A user of an OpenPBS of two nodes and the queue `work`, with this profile."""
    spec = ClusterSpec(
        scheduler="pbs",
        node_types=(NodeType(count=2),),
        partitions=(Partition(name="work", default=True, max_time="1-00:00:00"),),
        sshd=True,
    )
    with Cluster(spec, name=f"{name}-{os.getpid()}") as running:
        yield User(running, site)
