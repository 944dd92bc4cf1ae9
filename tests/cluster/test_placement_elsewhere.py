"""Placements as applied inside real OpenPBS and Flux jobs: every launcher's ranks have the CPUs that were planned."""

from __future__ import annotations

import os

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, why_no_flux, why_no_pbs, why_not
from tests.cluster.jobs import PYTHON, User
from tests.cluster.placed import check_binders, check_job, check_options, lacks, prepare, site

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(why_not()), reason=why_not())]

HYDRA = "mpiexec.hydra -launcher fork"
TORCHRUN = "torchrun --standalone --nproc-per-node 4 --no-python"
MPIRUN = "mpirun --host localhost:4"
"""By itself Open MPI of Debian asks no PBS and no Flux for its slots."""

ANYWHERE = {
    "mpirun": f"{MPIRUN} -np 4 --bind-to none",
    "mpiexec.hydra": f"{HYDRA} -n 4 -bind-to none",
    "torchrun": TORCHRUN,
    "torchrun in mpirun": f"{MPIRUN} -np 1 --bind-to none {TORCHRUN}",
}
OWN_ANYWHERE = {
    "mpirun": ("openmpi", f"{MPIRUN} OPTIONS"),
    "mpirun --rankfile": ("rankfile", f"{MPIRUN} -np 4 --rankfile OPTIONS"),
    "mpiexec.hydra": ("hydra", f"{HYDRA} OPTIONS -n 4"),
}
FLUX_RUN = "flux run -N1 -n4 -x -o cpu-affinity=off"
SCHEDULERS = {
    "OpenPBS": ("pbs", why_no_pbs, {"type": "openpbs", "exclusive": True}),
    "Flux": ("flux", why_no_flux, {"type": "flux", "exclusive": True, "gpus": "none"}),
}


def why_skip(name, launcher, line):
    """Why a launcher cannot be tried in a scheduler's job; empty if it can."""
    if launcher == "flux run" and name != "Flux":
        return "flux run needs Flux"
    if "mpirun" in launcher and name == "Flux":
        return "Open MPI 4.1 as Debian builds it ends with a segmentation fault in a job of Flux"
    return f"needs {missing}" if (missing := lacks(line)) else ""


class Ground:
    """A cluster of one node of a scheduler, and how a script runs there."""

    def __init__(self, name: str, cluster: Cluster) -> None:
        self.name, self.cluster = name, cluster
        self.directory = prepare(cluster)

    def run(self, line, log):
        """A script in a job of the whole node; a line that begins with `flux run` asks Flux itself."""
        script = log.with_suffix(".sh")
        script.write_text(f"#!/bin/bash\nexport PATH={PYTHON}:$PATH\n{line}\n")
        script.chmod(0o755)
        if self.name == "OpenPBS":
            # The job's output comes back to PBS's own directory only when it ends well: it is written here instead.
            line = f"qsub -W block=true -l select=1:ncpus=8 -l place=excl -- /bin/bash -c '{script} > {log} 2>&1'"
        elif line.removeprefix("eval ").startswith("flux run"):
            line = f"{script} > {log} 2>&1"
        else:
            line = f"flux run -N1 -n1 -x -o cpu-affinity=off {script} > {log} 2>&1"
        done = self.cluster.on("login", line, cwd=self.directory)
        assert done.returncode == 0, f"{done}\n{log.read_text() if log.exists() else ''}"
        return done


@pytest.fixture(scope="module", params=SCHEDULERS)
def ground(request):
    kind, why, _ = SCHEDULERS[request.param]
    if why():
        pytest.skip(why())
    spec = ClusterSpec(
        scheduler=kind,
        node_types=(NodeType(count=1),),
        partitions=(Partition(name="debug", default=True),),
        sshd=True,
    )
    with Cluster(spec, name=f"placement-{kind}-{os.getpid()}") as running:
        yield Ground(request.param, running)


@pytest.mark.parametrize("launcher", [*ANYWHERE, "flux run"])
def test_ranks_have_their_own_cores_whichever_launcher_started_them(ground, launcher):
    line = {**ANYWHERE, "flux run": FLUX_RUN}[launcher]
    if why := why_skip(ground.name, launcher, line):
        pytest.skip(why)
    check_binders(ground.name, launcher, line, ground.directory, ground.run)


@pytest.mark.parametrize("launcher", [*OWN_ANYWHERE, "flux run"])
def test_a_launchers_own_options_give_ranks_their_cores(ground, launcher):
    form, line = {**OWN_ANYWHERE, "flux run": ("flux", "flux run -N1 -x OPTIONS")}[launcher]
    if why := why_skip(ground.name, launcher, line):
        pytest.skip(why)
    check_options(ground.name, launcher, form, line, ground.directory, ground.run, allocation=False)


@pytest.mark.parametrize(
    ("launcher", "agent"),
    [("openmpi", False), ("hydra", False), ("ssh", False), ("flux", False), ("ssh", True)],
    ids=["mpirun", "mpiexec.hydra", "ssh", "flux run", "torchrun in ssh"],
)
def test_ranks_of_a_submitted_job_have_their_own_cores(ground, launcher, agent):
    if (launcher == "flux") != (ground.name == "Flux"):
        pytest.skip(f"not how ranks are started in {ground.name}")
    if missing := lacks({"openmpi": "mpirun", "hydra": "mpiexec.hydra"}.get(launcher, "torchrun")):
        pytest.skip(f"needs {missing}")
    alice = User(ground.cluster, site(SCHEDULERS[ground.name][2], launcher))
    names = {"openmpi": "mpirun", "hydra": "mpiexec.hydra", "flux": "flux run"}
    check_job(ground.name, alice, names.get(launcher, launcher), agent=agent)
