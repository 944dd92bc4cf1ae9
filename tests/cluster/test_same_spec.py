"""The same spec trains under each scheduler; only `--site` differs."""

from __future__ import annotations

import os

import pytest

from tests.cluster import (
    Cluster,
    ClusterSpec,
    NodeType,
    Partition,
    why_no_flux,
    why_no_gridengine,
    why_no_pbs,
    why_not,
)
from tests.cluster.jobs import PYTHON, User

pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.torch,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]

SPEC = {
    "name": "digits",
    "framework": "torch",
    "command": ["python", "TRAIN", "--batch", "{{ batch_per_rank }}", "--epochs", "6", "--expect", "0.9"],
    "batch_per_rank": 32,
    "resources": {"ranks_per_node": 2, "cpus_per_rank": 1, "walltime": "10m"},
    "placement": {"threads": 1},
    "environment": {"venv": str(PYTHON.parent)},
}
COMMON = {
    "partitions": {"work": {"default": True, "node_type": "n"}},
    "node_types": {"n": {"topology": {"packages": 2, "cores": 4}}},
    "fabric": {"name": "ethernet", "interfaces": ["eth0"]},
}
SITES = {
    "slurm": {"scheduler": {"type": "slurm", "memory": "none"}, "launcher": {"name": "srun"}},
    "pbs": {"scheduler": {"type": "openpbs"}, "launcher": {"name": "ssh"}},
    "flux": {"scheduler": {"type": "flux", "exclusive": True, "gpus": "none"}, "launcher": {"name": "flux"}},
    "gridengine": {
        "scheduler": {"type": "gridengine", "parallel_environment": "mpi-{slots}"},
        "launcher": {"name": "qrsh"},
    },
}
MISSING = {"slurm": "", "pbs": why_no_pbs(), "flux": why_no_flux(), "gridengine": why_no_gridengine()}


@pytest.mark.parametrize("kind", SITES)
def test_digits(kind):
    if MISSING[kind]:
        pytest.skip(MISSING[kind])
    queue = Partition(name="work", default=True, max_time="1-00:00:00")
    spec = ClusterSpec(scheduler=kind, node_types=(NodeType(count=1),), partitions=(queue,), sshd=True)
    with Cluster(spec, name=f"same-{kind}-{os.getpid()}") as running:
        alice = User(running, {"name": f"site-{kind}", **SITES[kind], **COMMON})
        train = PYTHON.parent.parent / "examples" / "digits" / "train.py"
        command = [word.replace("TRAIN", str(train)) for word in SPEC["command"]]
        path = alice.write("digits.yaml", {**SPEC, "command": command})
        for site in (f"{alice.directory}/site.yaml", "workstation"):
            done = alice.dlrun("submit", str(path), "--site", site, "--wait", timeout=300, code=None)
            assert done.returncode == 0, done.stdout + done.stderr
            assert "with 2 ranks, replicas equal" in done.stdout
            if kind != "slurm":
                break  # the login host's own processors need be tried only once
