"""Placements as applied inside real Slurm jobs: every launcher's ranks have the CPUs that were planned for them."""

from __future__ import annotations

import os
import re
import shutil

import pytest

from dlrun.model.cpuset import parse_list
from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, why_not
from tests.cluster.jobs import PYTHON, User, bash

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(why_not()), reason=why_not())]

TOPOLOGY = "{packages: 2, cores: 4}\n"
PLACED = "--ranks-per-node 4"
PLANNED = [(0, 1), (2, 3), (4, 5), (6, 7)]
"""Four ranks on two packages of four cores. The kernel beneath has one NUMA node and rejects the second's memory policy,
which must not end a rank."""

FORMS = {
    "wrapper": "{directory}/bind.sh",
    "exec": f"{PYTHON}/dlrun tune-affinity {PLACED} --topology {{directory}}/node.yaml --exec",
    "exec-live": f"{PYTHON}/dlrun tune-affinity {PLACED} --exec",
}
"""What is written before a command so that it is bound."""

STEP = "srun --mpi=none -n1 -c8 --cpu-bind=none"
TORCHRUN = "torchrun --standalone --nproc-per-node 4 --no-python"
LAUNCHERS = {
    "srun": "srun --mpi=none -n4 --cpu-bind=none",
    "mpirun": "mpirun -np 4 --bind-to none",
    "mpirun in a step": f"{STEP} mpirun -np 4 --oversubscribe --bind-to none --mca plm isolated",
    "torchrun": TORCHRUN,
    "torchrun in a step": f"{STEP} {TORCHRUN}",
    "torchrun in mpirun": f"mpirun -np 1 --bind-to none {TORCHRUN}",
}
"""What a batch script writes before the program of its four ranks."""

GPU_NODE = "{packages: 2, cores: 4, gpus: {numa: [1, 1, 0, 0]}}\n"
SHOW = """\
#!/bin/bash
exec 9>>"$1"
flock 9
echo "$DLRUN_CPUS $(taskset -c -p $$ | sed 's/.*: //')" >&9
"""


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
    """A directory of the cluster's users with the node's topology, its wrapper, and what every rank runs."""
    place = cluster.shared / "scratch" / "placement"
    place.mkdir(mode=0o777)
    place.chmod(0o777)
    (place / "node.yaml").write_text(TOPOLOGY)
    command = f"{PYTHON}/dlrun tune-affinity --topology {place}/node.yaml {PLACED} --format wrapper"
    forms = [f"{form.format(directory=place)} {place}/show $1-{name}" for name, form in FORMS.items()]
    (place / "gpus.yaml").write_text(GPU_NODE)
    with_gpus = command.replace("node.yaml", "gpus.yaml")
    scripts = {
        "bind-gpus.sh": cluster.on("login", with_gpus, check=True).stdout,
        "bind.sh": cluster.on("login", command, check=True).stdout,
        "show": SHOW,
        "rank": "\n".join(["#!/bin/bash", "set -e", *forms]) + "\n",
    }
    for name, text in scripts.items():
        (place / name).write_text(text)
        (place / name).chmod(0o755)
    return place


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_ranks_have_their_own_cores_whichever_launcher_started_them(cluster, directory, launcher):
    if "mpirun" in launcher and not shutil.which("mpirun"):
        pytest.skip("needs Open MPI")
    base = directory / launcher.replace(" ", "-")
    line = f"{LAUNCHERS[launcher]} {directory}/rank {base}"
    script = f"#!/bin/bash\nexport PATH={PYTHON}:$PATH\n{line}\n"
    options = ["--wait", "-N1", "-n4", "-c2", "-o", f"{base}.log"]
    done = cluster.on("login", ["sbatch", *options], input=script, cwd=directory)
    assert done.returncode == 0, f"{done}\n{base.with_suffix('.log').read_text()}"
    for form in FORMS:
        lines = [line.split() for line in base.with_name(f"{base.name}-{form}").read_text().splitlines()]
        assert sorted(parse_list(words[1]) for words in lines) == PLANNED, f"{form}: {lines}"
        assert all(parse_list(planned) == parse_list(real) for planned, real in lines), f"{form}: {lines}"


def site(launcher):
    """A site of this cluster's nodes, each a job's alone, on which dlrun starts ranks by a launcher."""
    return {
        "name": "placement",
        "scheduler": {"type": "slurm", "memory": "none", "exclusive": True},
        "launcher": {"name": launcher},
        "partitions": {"debug": {"default": True, "node_type": "n"}},
        "node_types": {"n": {"topology": {"packages": 2, "cores": 4}}},
    }


@pytest.mark.parametrize(
    ("launcher", "options"),
    [("srun", {}), ("openmpi", {}), ("srun", {"agent": True})],
    ids=["srun", "mpirun", "torchrun in srun"],
)
def test_ranks_of_a_submitted_job_have_their_own_cores(cluster, launcher, options):
    if launcher == "openmpi" and not shutil.which("mpirun"):
        pytest.skip("needs Open MPI")
    alice = User(cluster, site(launcher))
    mask = (
        "echo \"rank $LOCAL_RANK threads $OMP_NUM_THREADS mask $(taskset -c -p $BASHPID | sed 's/.*: //')\""
    )
    spec = {"framework": "torch", "command": bash(mask), "resources": {"ranks_per_node": 4, "walltime": "5m"}}
    job = alice.submit({**spec, **({"torch": options} if options else {})})
    (run,) = alice.ended(job)
    said = "".join(path.read_text() for path in alice.job_dir(job).glob("logs/*.log"))
    assert run["state"] == "completed", said
    lines = re.findall(r"rank (\d) threads (\d) mask (\S+)", said)
    assert sorted((int(rank), int(threads), parse_list(cpus)) for rank, threads, cpus in lines) == [
        (rank, 2, cpus) for rank, cpus in enumerate(PLANNED)
    ], said


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
