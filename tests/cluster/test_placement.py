"""Placements as applied inside real Slurm jobs: every launcher's ranks have the CPUs that were planned for them."""

from __future__ import annotations

import os

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, why_not
from tests.cluster.jobs import PYTHON, User
from tests.cluster.placed import check_binders, check_job, check_options, emitted, lacks, prepare, site
from tests.programs import need

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(why_not()), reason=why_not())]

HYDRA = "mpiexec.hydra -launcher fork"
STEP = "srun --mpi=none -n1 -c8 --cpu-bind=none"
TORCHRUN = "torchrun --standalone --nproc-per-node 4 --no-python"
LAUNCHERS = {
    "srun": "srun --mpi=none -n4 --cpu-bind=none",
    "mpirun": "mpirun -np 4 --bind-to none",
    "mpirun in a step": f"{STEP} mpirun -np 4 --oversubscribe --bind-to none --mca plm isolated",
    "mpiexec.hydra": f"{HYDRA} -n 4 -bind-to none",
    "torchrun": TORCHRUN,
    "torchrun in a step": f"{STEP} {TORCHRUN}",
    "torchrun in mpirun": f"mpirun -np 1 --bind-to none {TORCHRUN}",
}
"""What a batch script writes before the program of its four ranks."""

OWN = {
    "srun": ("srun", "srun --mpi=none -n4 -c2 OPTIONS"),
    "mpirun": ("openmpi", "mpirun OPTIONS"),
    "mpirun --rankfile": ("rankfile", "mpirun -np 4 --rankfile OPTIONS"),
    "mpiexec.hydra": ("hydra", f"{HYDRA} OPTIONS -n 4"),
}
"""Launchers that bind ranks by their own options, as a format prints them."""

SLURM = {"type": "slurm", "memory": "none", "exclusive": True}
GPU_NODE = "{packages: 2, cores: 4, gpus: {numa: [1, 1, 0, 0]}}\n"


@pytest.fixture(scope="module")
def cluster():
    spec = ClusterSpec(
        node_types=(NodeType(count=1), NodeType(name="g", count=1, gpus=4)),
        partitions=(
            Partition(name="debug", node_types=("n",), default=True, exclusive=True),
            Partition(name="gpu", node_types=("g",)),
        ),
    )
    with Cluster(spec, name=f"placement-{os.getpid()}") as running:
        yield running


@pytest.fixture(scope="module")
def directory(cluster):
    place = prepare(cluster)
    (place / "gpus.yaml").write_text(GPU_NODE)
    (place / "bind-gpus.sh").write_text(emitted(cluster, place / "gpus.yaml", "wrapper"))
    (place / "bind-gpus.sh").chmod(0o755)
    return place


@pytest.fixture(scope="module")
def run(cluster, directory):
    """A script in a batch job of a whole node."""

    def start(line, log):
        script = f"#!/bin/bash\nexport PATH={PYTHON}:$PATH\n{line}\n"
        options = ["--wait", "-N1", "-n4", "-c2", "-o", str(log)]
        done = cluster.on("login", ["sbatch", *options], input=script, cwd=directory)
        assert done.returncode == 0, f"{done}\n{log.read_text()}"
        return done

    return start


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_ranks_have_their_own_cores_whichever_launcher_started_them(directory, run, launcher):
    if missing := lacks(LAUNCHERS[launcher]):
        pytest.skip(f"needs {missing}")
    check_binders("Slurm", launcher, LAUNCHERS[launcher], directory, run)


@pytest.mark.parametrize("launcher", OWN)
def test_a_launchers_own_options_give_ranks_their_cores(directory, run, launcher):
    form, line = OWN[launcher]
    if missing := lacks(line):
        pytest.skip(f"needs {missing}")
    check_options("Slurm", launcher, form, line, directory, run)


@pytest.mark.parametrize(
    ("launcher", "agent"),
    [("srun", False), ("openmpi", False), ("srun", True)],
    ids=["srun", "mpirun", "torchrun in srun"],
)
def test_ranks_of_a_submitted_job_have_their_own_cores(cluster, launcher, agent):
    if launcher == "openmpi":
        need("mpirun")
    alice = User(cluster, site(SLURM, launcher))
    check_job("Slurm", alice, {"openmpi": "mpirun"}.get(launcher, launcher), agent=agent)


@pytest.mark.parametrize(
    ("asked", "step", "shown"),
    [
        ("--gres=gpu:4", "srun --mpi=none -n4", ["0", "1", "2", "3"]),
        ("--gres=gpu:4", "srun --mpi=none -n4 --gpus-per-task=1", ["0", "1", "2", "3"]),
        ("--gres=gpu:2", "srun --mpi=none -n2", ["0", "1"]),
        ("--gres=gpu:1", "srun --mpi=none -n1", ["0"]),
        ("", "srun --mpi=none -n4", ["0", "1", "2", "3"]),
    ],
    ids=["whole node", "a GPU a task", "half the node", "one GPU", "asked for none, hidden by nobody"],
)
def test_ranks_see_gpus_within_what_slurm_granted(cluster, directory, asked, step, shown):
    place = directory / f"gpus-{asked.replace('=', '').replace(':', '')}-{len(step)}"
    line = f"{step} --cpu-bind=none {directory}/bind-gpus.sh bash -c 'echo $CUDA_VISIBLE_DEVICES'"
    options = ["--wait", "-N1", "-n4", "-p", "gpu", "-o", f"{place}.log", *asked.split()]
    done = cluster.on("login", ["sbatch", *options], input=f"#!/bin/bash\n{line}\n", cwd=directory)
    said = place.with_suffix(".log").read_text()
    assert done.returncode == 0, f"{done}\n{said}"
    assert sorted(line for line in said.splitlines() if not line.startswith("dlrun:")) == shown, said


def test_the_report_has_slurms_default_binding_beside_dlruns(cluster, directory):
    log = directory / "report.log"
    line = f"{PYTHON}/dlrun tune-affinity --measure --report --ranks-per-node 2 --memory none"
    done = cluster.on(
        "login",
        ["sbatch", "--wait", "-N1", "-n2", "-c4", "-o", str(log)],
        input=f"#!/bin/bash\nexport PATH={PYTHON}:$PATH\n{line}\n",
        cwd=directory,
        timeout=300,
    )
    said = log.read_text()
    assert done.returncode == 0, said
    rows = [row for row in said.splitlines() if row.startswith(("no binding ", "srun's default ", "dlrun "))]
    assert [row.split("  ")[0] for row in rows if "±" in row] == ["no binding", "srun's default", "dlrun"], (
        said
    )
