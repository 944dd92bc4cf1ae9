"""Which rank a process is: the same answer in Python and in the rendered wrapper."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace

import pytest

from dlrun.effects.affinity.bind import library
from dlrun.effects.inputs.topology import live_topology
from dlrun.model.cpuset import format_list, parse_list
from dlrun.model.local_rank import LOCAL_RANK, local_rank
from dlrun.model.placement import PlacementRequest
from dlrun.plan.affinity import place
from dlrun.render.affinity.formats.registry import format_named
from dlrun.render.affinity.settings import BindingContext

BATCH = {"SLURM_LOCALID": "0", "SLURM_JOB_ID": "7"}
STEP = {**BATCH, "SLURM_STEP_NUM_TASKS": "2"}

ENVIRONMENTS = [
    ({}, None),
    (BATCH, None),
    ({**STEP, "SLURM_LOCALID": "1"}, 1),
    ({"SLURM_LOCALID": "", "SLURM_STEP_NUM_TASKS": "2"}, None),
    *(({**around, name: "1"}, 1) for around in (BATCH, STEP) for name in LOCAL_RANK[:-1]),
    ({**STEP, "OMPI_COMM_WORLD_LOCAL_RANK": "0", "LOCAL_RANK": "1"}, 1),
    ({**STEP, "PALS_LOCAL_RANKID": "0", "LOCAL_RANK": "1"}, 1),
    ({**STEP, "FLUX_TASK_LOCAL_ID": "0", "MPI_LOCALRANKID": "1"}, 1),
    ({**STEP, "FLUX_TASK_LOCAL_ID": "1"}, 1),
    ({"DLRUN_LOCAL_RANK": "0", "MV2_COMM_WORLD_LOCAL_RANK": "1"}, 1),
    ({"DLRUN_LOCAL_RANK": "1", "PALS_LOCAL_RANKID": "0"}, 1),
    ({"LOCAL_RANK": "not a number", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}, 1),
]


@pytest.fixture(scope="module")
def wrapper(tmp_path_factory):
    """A wrapper for two ranks of one core each on this machine, and whose core is whose."""
    node = live_topology()
    if len(node.cores) < 2:
        pytest.skip("needs two cores")
    node = replace(node, gpus=(), nics=())
    placement = place(node, PlacementRequest(ranks_per_node=2, membind="none"))
    script = tmp_path_factory.mktemp("wrapper") / "bind.sh"
    script.write_text(format_named("wrapper").emit(placement, node, BindingContext(library=library())))
    return script, {format_list(rank.mask): rank.rank for rank in placement.ranks}


@pytest.mark.parametrize(("environment", "rank"), ENVIRONMENTS, ids=lambda value: str(value)[:60])
def test_the_innermost_launcher_counts(environment, rank, wrapper):
    assert local_rank(environment) == rank
    script, cpus = wrapper
    done = subprocess.run(
        ["bash", script, "bash", "-c", 'taskset -c -p $$; echo "$DLRUN_CPUS"'],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if rank is None:
        assert (done.returncode, "no launcher" in done.stderr) == (2, True)
    else:
        real, planned = done.stdout.splitlines()
        assert format_list(parse_list(real.rpartition(":")[2])) == planned
        assert cpus[planned] == rank
