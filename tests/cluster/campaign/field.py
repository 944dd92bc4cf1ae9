"""A user on the broken cluster, or at a laptop outside it, and the means to break the cluster and the job."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import yaml

from tests.cluster import Cluster
from tests.cluster.campaign.grounds import Ground
from tests.cluster.jobs import PYTHON, User


class Field(User):
    """A user on the login host."""

    def __init__(self, cluster: Cluster, site: dict[str, Any], ground: Ground) -> None:
        super().__init__(cluster, site)
        self.ground = ground
        self.other = ""
        """The job that the one of the fault waits for."""
        self._place: dict[str, Path] = {}

    def on(self, host: str, script: str) -> str:
        """Run bash code on a host as root; what it prints."""
        return self.cluster.on(host, ["bash", "-c", script], user="root").stdout

    def hand_over(self, spec: dict[str, Any], *words: str) -> str:
        """Submit a spec; the scheduler's id of the job."""
        path = self.write(f"{time.monotonic_ns()}.yaml", spec)
        job = self.dlrun("submit", str(path), "--parsable", *words).stdout.strip()
        self.job_dir(job)
        return job

    def job_dir(self, job_id: str) -> Path:
        """The job's directory, which is asked for once: the scheduler may be away later."""
        if job_id not in self._place:
            self._place[job_id] = super().job_dir(job_id)
        return self._place[job_id]

    def places(self) -> list[Path]:
        """The directories of the jobs that were submitted."""
        return list(self._place.values())

    def log(self, job_id: str, name: str = "job") -> str:
        """A log of the job, of a sweep that of its second point, whatever bytes it has."""
        place = self.job_dir(job_id)
        point = place / "points" / "1"
        path = (point if point.exists() else place) / "logs" / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def kill(self, job: str, host: str, signal: str = "KILL", program: str = "sleep") -> None:
        """Send a signal to a job's processes of a name on a host, as soon as there is one."""
        mine = f"grep -qzxF DLRUN_JOB_DIR={self.job_dir(job)} /proc/$p/environ"
        line = f"n=1; for p in $(pgrep -u alice -x {program}); do {mine} && kill -{signal} $p && n=0; done; exit $n"
        end = time.monotonic() + 60
        while self.cluster.on(host, line, user="root").returncode and time.monotonic() < end:
            time.sleep(0.2)

    def record(self, job: str) -> dict[str, Any]:
        """What the job's script has written of its own state."""
        path = self.job_dir(job) / "state.json"
        return dict(json.loads(path.read_text())) if path.exists() else {}

    def over(self, job: str, within: float) -> float:
        """Wait for the end of a job, by what its scheduler knows; when it was first seen to be over."""
        deadline = time.monotonic() + within
        while self.ground.open(self, job):
            if time.monotonic() > deadline:
                self.ground.cancel(self, job, "root")
                raise TimeoutError(job)
            time.sleep(0.3)
        return time.monotonic()

    def until(self, so: Any, within: float = 60.0) -> float:
        """Wait until something is so; when it was first seen to be."""
        deadline = time.monotonic() + within
        while not so():
            if time.monotonic() > deadline:
                raise TimeoutError
            time.sleep(0.3)
        return time.monotonic()

    def left(self, place: Path, gone: float) -> int:
        """Processes of a job on all nodes, after so many seconds to go."""
        look = f"grep -lszF -- DLRUN_JOB_DIR={place} /proc/[0-9]*/environ | wc -l"
        deadline = time.monotonic() + gone
        while True:
            hosts = [host for host, alive in self.cluster.status().items() if alive]
            found = sum(int(self.on(host, look) or 0) for host in hosts)
            if not found or time.monotonic() > deadline:
                return found
            time.sleep(0.5)


class FarField(Field):
    """The same user at a laptop, whose jobs go to the login host by ssh."""

    def __init__(self, cluster: Cluster, site: dict[str, Any], ground: Ground) -> None:
        self.home = cluster.home("alice")
        self._name = ""
        super().__init__(cluster, site, ground)
        clients = shutil.which("sbatch") if ground.name == "slurm" else None
        line = f'PATH="{cluster.on("login", "echo $PATH").stdout.strip()}"; export PATH\n'
        if clients is None:
            cluster.on("login", "tee .bashrc > .bash_profile", input=line, check=True)

    def write(self, name: str, content: dict[str, Any] | str) -> Path:
        """A file in the home on the laptop."""
        text = content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False)
        path = self.home / f"{self.directory.name}-{name}"
        self.cluster.on("laptop", ["tee", str(path)], input=text, check=True)
        return path

    def dlrun(
        self, *words: str, env: dict[str, str] | None = None, timeout: float = 180, code: int | None = 0
    ) -> CompletedProcess[str]:
        """Run dlrun on the laptop; what is submitted goes to the login host."""
        site = {"DLRUN_SITE": str(self.home / f"{self.directory.name}-site.yaml")}
        there = ("--host", "login") if words[0] == "submit" else ()
        line = ["bash", "-c", 'PATH="$0:$PATH" exec dlrun "$@"', str(PYTHON), *words, *there]
        done = self.cluster.on("laptop", line, user=self.name, env={**site, **(env or {})}, timeout=timeout)
        if code is not None:
            assert done.returncode == code, (
                f"dlrun {' '.join(words)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
            )
        return done

    def hand_over(self, spec: dict[str, Any], *words: str) -> str:
        """Submit a spec under a name of its own, by which its directory on the login host is found."""
        name = f"far-{time.monotonic_ns()}"
        self._name = name
        return super().hand_over({**spec, "name": name}, *words)

    def job_dir(self, job_id: str) -> Path:
        """The job's directory on the login host, which is on the shared file system."""
        if job_id not in self._place:
            (self._place[job_id],) = (self.home / ".local/state/dlrun/jobs").glob(f"{self._name}-*")
        return self._place[job_id]
