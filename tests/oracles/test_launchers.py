"""What real MPI launchers do with the emitted settings, on the golden machines, is the placement."""

from __future__ import annotations

import os
import re
import shlex
import subprocess

import pytest

from dlrun.affinity.formats.logical import logical_cores
from dlrun.affinity.formats.registry import format_named
from dlrun.affinity.settings import BindingContext
from dlrun.errors import Invalid
from dlrun.model.cpuset import parse_list
from dlrun.model.placement import PlacementRequest
from dlrun.plan.affinity import place
from tests.oracles.hwloc_xml import write
from tests.unit.affinity.machines import cases, topology

PLACED = [case for case in cases() if not case.error]


@pytest.fixture
def fake(tmp_path):
    """An environment in which hwloc sees a topology."""

    def make(node, **more):
        path = tmp_path / "node.xml"
        path.write_text(write(node))
        clean = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("I_MPI_", "OMPI_", "PMI", "SLURM_", "HYDRA_"))
        }
        as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return {**clean, **as_root, "HWLOC_XMLFILE": str(path), "HWLOC_THISSYSTEM": "0", **more}

    return make


def run(argv, env):
    done = subprocess.run(
        list(map(str, argv)), env=env, capture_output=True, text=True, check=False, timeout=240
    )
    return done.stdout + done.stderr + (f"exit code {done.returncode}" if done.returncode else "")


def masks(placement):
    return {rank.rank: set(rank.mask) for rank in placement.ranks}


@pytest.mark.parametrize("case", PLACED, ids=lambda case: case.id)
def test_intel_mpi_pins_each_rank_to_its_mask(impi, fake, case):
    placement = place(case.topology, case.request)
    text = format_named("intelmpi").emit(placement, case.topology, BindingContext())
    settings = dict(line.removeprefix("export ").split("=", 1) for line in text.splitlines())
    env = fake(
        case.topology, I_MPI_ROOT=str(impi.parents[1]), **{k: v.strip("'") for k, v in settings.items()}
    )
    output = run(
        [impi, "-n", len(placement.ranks), "bash", "-c", "echo rank $PMI_RANK pins $I_MPI_PIN_INFO"], env
    )
    seen = {int(r): set(parse_list(cpus)) for r, cpus in re.findall(r"rank (\d+) pins ([0-9,]+)", output)}
    assert seen == masks(placement), output


@pytest.mark.parametrize("case", PLACED, ids=lambda case: case.id)
def test_mpich_binds_each_rank_to_its_mask(hydra, fake, case):
    placement = place(case.topology, case.request)
    words = shlex.split(format_named("hydra").emit(placement, case.topology, BindingContext()))
    # Hydra 4.0 may die of SIGPIPE, its output lost, where the program ends while it still passes the end of its input on.
    output = run(
        [hydra, "-np", len(placement.ranks), *words, "sleep", "0.2"],
        fake(case.topology, HYDRA_TOPO_DEBUG="1"),
    )
    seen = {
        int(rank): {i for i, bit in enumerate(bits) if bit == "1"}
        for rank, bits in re.findall(r"process (\d+) binding: ([01]+)", output)
    }
    assert seen == masks(placement), output


def bindings(output, node):
    """Cores of each rank, in OS ids, out of Open MPI's map: `[BB/../..][../../..]`, in logical order."""
    order = logical_cores(node)
    found = {}
    for rank, text in enumerate(re.findall(r"Binding: (\[.*\])", output)):
        words = re.findall(r"[B.]+", text)
        found[rank] = {order[i].pus[0] for i, word in enumerate(words) if "B" in word}
    return found


def say(case):
    placement = place(case.topology, case.request)
    return placement, format_named("openmpi").emit(placement, case.topology, BindingContext())


SAYABLE = []
for _case in PLACED:
    try:
        say(_case)
    except Invalid:
        continue
    SAYABLE.append(_case)


def test_enough_machines_can_be_said_to_open_mpi():
    assert {"G2", "G2m", "G3", "G8", "G15", "G10", "G14"} <= {case.id for case in SAYABLE}


@pytest.mark.parametrize("case", SAYABLE, ids=lambda case: case.id)
def test_open_mpi_maps_each_rank_to_its_cores(openmpi, fake, case):
    placement, text = say(case)
    words = ["--host", "node:999", *shlex.split(text), "--do-not-launch", "--display-devel-map", "true"]
    output = run([openmpi, *words], fake(case.topology))
    assert bindings(output, case.topology) == {rank.rank: set(rank.cores) for rank in placement.ranks}, output


@pytest.mark.parametrize("case", PLACED, ids=lambda case: case.id)
def test_open_mpi_5_reads_rankfiles_in_logical_numbers(openmpi5, fake, tmp_path, case):
    placement = place(case.topology, case.request)
    text = format_named("rankfile").emit(placement, case.topology, BindingContext())
    (tmp_path / "ranks").write_text(text)
    words = ["--host", f"{os.uname().nodename}:999", "--map-by", f"rankfile:file={tmp_path / 'ranks'}"]
    words += ["--display", "map-devel", "--do-not-launch", "true"]
    output = run([openmpi5, "--allow-run-as-root", *words], fake(case.topology))
    order = logical_cores(case.topology)
    seen = [
        {order[i].pus[0] for listed in re.findall(r"core:L([0-9,-]+)", line) for i in parse_list(listed)}
        for line in re.findall(r"Binding: (.*)", output)
    ]
    assert seen == [set(rank.cores) for rank in placement.ranks], output


def test_open_mpi_cannot_say_stampede2_and_would_take_the_communication_cores(openmpi, fake):
    node = topology("stampede2")
    placement = place(node, PlacementRequest(ranks_per_node=2, comm_cores=2))
    with pytest.raises(Invalid, match="cannot express this placement"):
        format_named("openmpi").emit(placement, node, BindingContext())
    words = "--host node:99 -np 2 --map-by ppr:1:socket:pe=22 --bind-to core --do-not-launch --display-devel-map true"
    taken = bindings(run([openmpi, *words.split()], fake(node)), node)
    assert {38, 42} <= taken[0]
    assert {39, 43} <= taken[1]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_open_mpi_obeys_the_rankfile_on_this_machine(openmpi, tmp_path):
    from dlrun.system.inputs.topology import live_topology

    node = live_topology()
    placement = place(node, PlacementRequest(ranks_per_node=2, gpus_per_rank=0))
    file = tmp_path / "ranks"
    file.write_text(
        format_named("rankfile").emit(placement, node, BindingContext()).replace("+n0", "localhost")
    )
    env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    command = 'echo "rank $OMPI_COMM_WORLD_RANK on $(taskset -cp $$ | sed s/.*://)"'
    output = run([openmpi, "-np", "2", "--rankfile", file, "bash", "-c", command], env)
    seen = {int(r): set(parse_list(cpus)) for r, cpus in re.findall(r"rank (\d+) on\s+([0-9,-]+)", output)}
    assert seen == masks(placement), output
