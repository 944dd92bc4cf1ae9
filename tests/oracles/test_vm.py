"""On a booted Linux with two packages, NUMA and even/odd numbering: what was planned is what is.

Takes a minute or two, so it runs when asked for: `DLRUN_TEST_VM=1 pytest tests/oracles/test_vm.py`.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

from dlrun.config.topology.short import build
from dlrun.model.placement import PlacementRequest
from dlrun.model.topology_short import ShortTopology
from dlrun.plan.affinity import place
from tests.oracles import vm

pytestmark = pytest.mark.skipif(
    os.environ.get("DLRUN_TEST_VM") != "1", reason="DLRUN_TEST_VM=1 boots a virtual machine"
)

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
cd {root}
export PYTHONPATH=$PWD HOME=/tmp OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
ip link set lo up 2>/dev/null || ifconfig lo up
hostname node
tune() {{ {python} -c 'from dlrun.cli.main import main; main()' \\
  tune-affinity --ranks-per-node 2 --comm-cores 1 --memory strict "$@"; }}
part() {{ echo "=== $1"; }}
part json; tune --format json
part verify; tune --verify; echo "code $?"
part all; tune --smt all --verify; echo "code $?"
part wrong; OMPI_COMM_WORLD_LOCAL_RANK=0 taskset -c 0,1 {python} -c \
  'from dlrun.cli.main import main; main()' tune-affinity --ranks-per-node 2 --memory strict --verify; echo "code $?"
part preferred; tune --memory preferred --verify; echo "code $?"
part memory; tune --exec {python} -c '
import os, re
block = bytearray(64 << 20)
pages = {{}}
for node, count in re.findall(r"N(\\d+)=(\\d+)", open("/proc/self/numa_maps").read()):
    pages[node] = pages.get(node, 0) + int(count)
print("rank", os.environ["RANK"], "most pages on node", max(pages, key=pages.get), flush=True)'
part rankfile; tune --format rankfile | sed s/+n0/localhost/ > /tmp/ranks
mpirun.openmpi -np 2 --rankfile /tmp/ranks bash -c 'echo "rank $OMPI_COMM_WORLD_RANK on $(taskset -cp $$ | sed s/.*://)"'
part wrapper; tune --format wrapper > /tmp/bind.sh
mpirun.openmpi -np 2 --bind-to none bash /tmp/bind.sh bash -c \
  'echo "rank $OMPI_COMM_WORLD_RANK on $(taskset -cp $$ | sed s/.*://) memory $(grep -c bind: /proc/self/numa_maps)"'
part offline; echo 0 > /sys/devices/system/cpu/cpu6/online; tune --format json
part end
"""


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """What each part of the script printed in the guest."""
    if missing := vm.why_not():
        pytest.skip(missing)
    script = SCRIPT.format(root=ROOT, python=sys.executable)
    text = vm.run(vm.Machine.even_odd(2, 4, 2), script, tmp_path_factory.mktemp("vm"))
    names = re.split(r"=== (\w+)\n", text)
    return dict(zip(names[1::2], names[2::2], strict=True))


def planned():
    node = build(ShortTopology(packages=2, cores=4, smt=2, numbering="even-odd"))
    return place(node, PlacementRequest(ranks_per_node=2, comm_cores=1))


def test_the_machine_is_read_as_it_was_made(parts):
    got = json.loads(parts["json"])["ranks"]
    want = planned().to_json()["ranks"]
    assert [{k: rank[k] for k in ("cores", "mask", "comm", "numa", "memory")} for rank in got] == [
        {k: rank[k] for k in ("cores", "mask", "comm", "numa", "memory")} for rank in want
    ]
    assert got[0]["cores"] == [0, 2, 4]
    assert got[1]["mask"] == [1, 3, 5, 9, 11, 13]


@pytest.mark.parametrize("part", ["verify", "all"])
def test_ranks_are_where_they_were_planned(parts, part):
    assert parts[part].count("as planned") == 2, parts[part]
    assert parts[part].endswith("code 0\n")
    assert "memory strict:1" in parts[part]


def test_a_preferred_node_is_read_back_too(parts):
    assert "memory preferred:1: as planned" in parts["preferred"]
    assert parts["preferred"].endswith("code 0\n")


def test_a_mask_over_both_packages_is_found(parts):
    assert "may use CPUs 0-1, not" in parts["wrong"]
    assert "memory policy is none, not strict:0" in parts["wrong"]
    assert parts["wrong"].endswith("code 1\n")


def test_memory_comes_from_the_ranks_own_node(parts):
    assert sorted(parts["memory"].splitlines()) == [f"rank {i} most pages on node {i}" for i in range(2)]


def test_open_mpi_obeys_the_rankfile_on_even_odd_numbering(parts):
    assert sorted(re.findall(r"rank (\d) on\s+([0-9,]+)", parts["rankfile"])) == [
        ("0", "0,2,4,8,10,12"),
        ("1", "1,3,5,9,11,13"),
    ], parts["rankfile"]


def test_the_wrapper_binds_cpus_and_memory_under_mpirun(parts):
    found = re.findall(r"rank (\d) on\s+([0-9,]+) memory (\d+)", parts["wrapper"])
    assert sorted(rank[:2] for rank in found) == [("0", "0,2,4,8,10,12"), ("1", "1,3,5,9,11,13")], parts[
        "wrapper"
    ]
    assert all(int(maps) > 0 for _, _, maps in found)


def test_a_cpu_that_goes_offline_is_left_out(parts):
    ranks = json.loads(parts["offline"])["ranks"]
    assert 6 not in [pu for rank in ranks for pu in (*rank["mask"], *rank["comm"])]
    assert [rank["threads"] for rank in ranks] == [3, 3]
    assert ranks[0]["comm"] == [14]  # the core's other hardware thread is still there
