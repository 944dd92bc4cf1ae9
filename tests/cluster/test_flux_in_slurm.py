"""An instance of Flux inside an allocation of a real Slurm, as the guide starts one; dlrun submits to it."""

from __future__ import annotations

import os
import shlex

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, flux, why_no_flux, why_not
from tests.cluster.jobs import PYTHON, User, bash

_WHY_NOT = why_not() or why_no_flux()
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(bool(_WHY_NOT), reason=_WHY_NOT),
]

SITE = {
    "name": "inner",
    "scheduler": {"type": "flux", "exclusive": True, "gpus": "none"},
    "launcher": {"name": "flux"},
    "fabric": {"name": "ethernet", "interfaces": ["eth0"]},
}


@pytest.fixture(scope="module")
def alice():
    with Cluster(ClusterSpec(node_types=(NodeType(count=2),)), name=f"inner-{os.getpid()}") as running:
        yield User(running, SITE)


def test_ranks_run_on_all_nodes_of_the_allocation(alice):
    spec = {"name": "inner", "framework": "torch", "command": bash("echo rank $RANK on $(hostname)"),
            "resources": {"nodes": 2, "ranks_per_node": 1, "walltime": "5m"}}  # fmt: skip
    path = alice.write("inner.yaml", spec)
    lines = f"flux resource list\ndlrun submit {shlex.quote(str(path))} --site ./site.yaml --wait\ndlrun logs inner --rank all\n"
    alice.write("inner.sh", f"#!/bin/bash\n{lines}").chmod(0o755)
    programs = f"{PYTHON}:{flux.prefix()}/bin:/usr/local/bin:/usr/bin:/bin"
    done = alice.cluster.on(
        "login",
        ["srun", "-N2", "-n2", "--exclusive", "--mpi=pmi2", "flux", "start", "./inner.sh"],
        env={"PATH": programs},
        cwd=str(alice.directory),
        timeout=180,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[rank 0] rank 0 on n1" in done.stdout, done.stdout + done.stderr
    assert "[rank 1] rank 1 on n2" in done.stdout
