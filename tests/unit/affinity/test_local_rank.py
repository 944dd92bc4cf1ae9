"""Which rank a process is: the same answer in Python and in the rendered wrapper."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import replace

import pytest

from dlrun.affinity.bind import LOCAL_RANK, library
from dlrun.affinity.formats.registry import format_named
from dlrun.affinity.settings import BindingContext
from dlrun.model.cpuset import format_list, parse_list
from dlrun.model.placement import PlacementRequest
from dlrun.plan.affinity import place
from dlrun.system.inputs.topology import live_topology
from tests import house

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


def test_the_table_of_variables_is_the_librarys_too():
    words = library().partition("_dlrun_names_of_launchers=(")[2].partition(")")[0].split()
    assert tuple(words) == LOCAL_RANK


PYTHON = f"{sys.executable} -c 'from dlrun.affinity.bind import local_rank; print(local_rank())'"
LIBRARY = "bash -c 'set -u; source \"$LIB/bind.sh\"; dlrun_find_local_rank; echo $DLRUN_LOCAL_RANK'"
OPEN_MPI = "OMPI_COMM_WORLD_LOCAL_RANK"
VARIABLE = PYTHON.replace("local_rank", "launcher_variable")
STALE = [(stale, own) for stale in LOCAL_RANK for own in LOCAL_RANK if stale != own]


def started(form, environment, stale, own, count=2):
    """What the ranks of a launcher find, which a shell with a stale variable has started: the launcher sets its own."""
    shell = f"for rank in $(seq 0 {count - 1}); do {own}=$rank {form}; done"
    done = subprocess.run(
        ["bash", "-c", shell],
        env={
            "PATH": os.environ["PATH"],
            "LIB": str(house.ROOT / "templates" / "lib"),
            **environment,
            **stale,
        },
        cwd=house.ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.split()


@pytest.mark.parametrize(("environment", "rank"), ENVIRONMENTS, ids=lambda value: str(value)[:60])
def test_python_takes_the_same_rank_as_the_library(environment, rank):
    done = subprocess.run(
        ["bash", "-c", PYTHON],
        env={"PATH": os.environ["PATH"], **environment},
        cwd=house.ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{rank}\n"


@pytest.mark.parametrize(("stale", "own"), STALE)
def test_a_local_rank_left_over_in_the_shell_does_not_count(stale, own):
    assert started(LIBRARY, {"SLURM_STEP_NUM_TASKS": "2"}, {stale: "0"}, own) == ["0", "1"]


@pytest.mark.parametrize(("stale", "own"), random.Random(6).sample(STALE, 6))
def test_a_local_rank_left_over_in_the_shell_does_not_count_in_python(stale, own):
    assert started(PYTHON, {"SLURM_STEP_NUM_TASKS": "2"}, {stale: "0"}, own) == ["0", "1"]


SIZE = LIBRARY.replace(
    "echo $DLRUN_LOCAL_RANK", 'source "$LIB/locate.sh"; dlrun_find_local_size 8; echo $DLRUN_LOCAL_SIZE'
)


def test_the_rank_whose_number_is_that_of_the_left_over_one_counts_the_ranks_as_the_others_do():
    """Otherwise it divides the grant by another number than they do, and has cores that they have, too."""
    assert started(SIZE, {"OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, {"LOCAL_RANK": "0"}, OPEN_MPI) == ["2", "2"]
    assert started(VARIABLE, {}, {"LOCAL_RANK": "0"}, OPEN_MPI) == [OPEN_MPI, OPEN_MPI]


@pytest.mark.parametrize("form", ["wrapper", "exec"])
def test_ranks_with_a_stale_local_rank_have_cores_of_their_own(wrapper, form):
    script, cpus = wrapper
    options = "--ranks-per-node 2 --memory none --gpus-per-rank 0"
    binder = {
        "wrapper": f"bash {script}",
        "exec": f"{sys.executable} -m dlrun tune-affinity {options} --exec",
    }
    shown = started(f"{binder[form]} bash -c 'echo $DLRUN_CPUS'", {}, {"LOCAL_RANK": "0"}, "MPI_LOCALRANKID")
    assert [cpus[line] for line in shown] == [0, 1]


@pytest.mark.parametrize(
    ("variables", "size"),
    [
        ("SLURM_LOCALID=1 SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=2", 2),
        ("SLURM_LOCALID=1 SLURM_NODEID=1 SLURM_STEP_TASKS_PER_NODE='4(x2),3'", 4),
        ("SLURM_LOCALID=1 SLURM_NODEID=2 SLURM_STEP_TASKS_PER_NODE='4(x2),3'", 3),
        ("SLURM_LOCALID=1 SLURM_STEP_TASKS_PER_NODE=nonsense", 8),
        ("SLURM_LOCALID=3 SLURM_STEP_TASKS_PER_NODE=2", 8),
        ("OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2", 2),
        ("MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2", 2),
        ("PALS_LOCAL_RANKID=1", 8),
        ("PALS_LOCAL_RANKID=1 PALS_LOCAL_SIZE=2", 2),
        ("PMI_LOCAL_RANK=1 PMI_LOCAL_SIZE=2", 2),
        ("MV2_COMM_WORLD_LOCAL_RANK=1 MV2_COMM_WORLD_LOCAL_SIZE=2", 2),
        ("MVP_COMM_WORLD_LOCAL_RANK=1 MVP_COMM_WORLD_LOCAL_SIZE=2", 2),
        ("LOCAL_RANK=1 LOCAL_WORLD_SIZE=2", 2),
        ("LOCAL_RANK=3 LOCAL_WORLD_SIZE=2", 8),
        ("FLUX_TASK_LOCAL_ID=1", 8),
    ],
)
def test_the_local_size_is_of_the_launcher_that_gave_the_local_rank(variables, size):
    """A step with fewer ranks than the plan divides what it was granted among those that run, not among those of the plan."""
    library = house.ROOT / "templates" / "lib"
    text = (
        f"set -u; source {library}/bind.sh; source {library}/locate.sh; export SLURM_STEP_NUM_TASKS=2 {variables}; "
        "dlrun_find_local_rank; dlrun_find_local_size 8; echo $DLRUN_LOCAL_SIZE"
    )
    done = subprocess.run(
        ["env", "-i", "PATH=/usr/bin:/bin", "bash", "-c", text], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{size}\n", done.stderr
