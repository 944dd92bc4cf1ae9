"""What real OpenMP runtimes do with the emitted variables, on the golden machines, is the placement."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dlrun.affinity.settings import BindingContext, settings
from dlrun.model.cpuset import format_list
from dlrun.model.placement import Preset
from dlrun.plan.affinity import place
from dlrun.plan.affinity.presets import presets
from tests.unit.affinity.machines import cases, topology

PROBE = Path(__file__).parent / "openmp_probe.py"
FRAMEWORK = {"gomp": "torch", "iomp": "intelcaffe"}
PLACED = [case for case in cases() if not case.error]


def cpuinfo(node) -> str:
    """`/proc/cpuinfo` of a topology, as libiomp reads it."""
    lines = []
    by_pu = {pu: core for core in node.cores for pu in core.pus}
    for pu, core in sorted(by_pu.items()):
        threads = {
            "processor": pu,
            "physical id": core.package,
            "core id": core.core_id,
            "thread id": core.pus.index(pu),
        }
        lines += [*(f"{name}\t: {value}" for name, value in threads.items()), ""]
    return "\n".join(lines) + "\n"


def team(openmp, node, placement, rank, tmp_path, preset=None) -> list[list[int]]:
    """The CPUs of every thread of a rank's team, bound to its mask, on that machine."""
    name, library, shim = openmp
    preset = preset or presets()[FRAMEWORK[name]]
    file = tmp_path / "cpuinfo"
    file.write_text(cpuinfo(node))
    job = BindingContext(preset=preset)
    told = {s.name: s.value for s in settings(placement, job) if s.rank in (None, rank.rank)}
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "KMP_", "GOMP_"))}
    env = {
        **clean,
        **told,
        "LD_PRELOAD": str(shim),
        "FAKE_ONLINE": str(max(node.pus()) + 1),
        "FAKE_MASK": format_list(rank.mask),
        "KMP_CPUINFO_FILE": str(file),
        "KMP_TOPOLOGY_METHOD": "cpuinfo",
        "KMP_WARNINGS": "0",
    }
    argv = [sys.executable, "-S", str(PROBE), str(library), str(rank.threads)]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("case", PLACED, ids=lambda case: case.id)
def test_one_thread_on_each_compute_core_and_none_elsewhere(openmp, case, tmp_path):
    placement = place(case.topology, case.request)
    of = {pu: core.pus for core in case.topology.cores for pu in core.pus}
    for rank in (placement.ranks[0], placement.ranks[-1]):
        threads = team(openmp, case.topology, placement, rank, tmp_path)
        assert len(threads) == rank.threads
        assert all(len(mask) == 1 for mask in threads), threads
        assert {of[mask[0]] for mask in threads} == {of[pu] for pu in rank.cores}
        assert {mask[0] for mask in threads}.isdisjoint(pu for other in placement.ranks for pu in other.comm)


@pytest.mark.parametrize("smt", ["one", "all"])
@pytest.mark.parametrize("machine", ["stampede2", "skx-smt-adjacent"])
def test_the_older_variable_of_gnus_runtime_says_the_same(gomp, machine, smt, tmp_path):
    node = topology(machine)
    placement = place(node, replace(PLACED[0].request, smt=smt))
    rank = placement.ranks[-1]
    threads = team(gomp, node, placement, rank, tmp_path, preset=Preset(openmp="gomp-old"))
    assert sorted(mask[0] for mask in threads) == list(rank.mask if smt == "all" else rank.cores)
    assert all(len(mask) == 1 for mask in threads)


@pytest.mark.parametrize("smt", ["one", "all"])
@pytest.mark.parametrize("case", PLACED, ids=lambda case: case.id)
def test_intels_list_of_cpus_is_obeyed_to_the_letter(iomp, case, smt, tmp_path):
    placement = place(case.topology, replace(case.request, smt=smt))
    for rank in (placement.ranks[0], placement.ranks[-1]):
        threads = team(iomp, case.topology, placement, rank, tmp_path, preset=Preset(openmp="iomp-list"))
        assert threads == [[cpu] for cpu in (rank.mask if smt == "all" else rank.cores)]


@pytest.mark.parametrize("machine", ["stampede2", "skx-smt-adjacent", "knl-quad-flat"])
def test_every_hardware_thread_with_smt_all(openmp, machine, tmp_path):
    node = topology(machine)
    placement = place(node, replace(PLACED[0].request, smt="all"))
    rank = placement.ranks[-1]
    threads = team(openmp, node, placement, rank, tmp_path)
    assert sorted(mask[0] for mask in threads) == list(rank.mask)


def test_the_facts_about_stampede2_left_to_libiomp_alone(iomp, tmp_path):
    """Over a whole package, libiomp's compact order reaches 42 and 38 last: what the PRACE guide relies on."""
    node = topology("stampede2")
    placement = place(node, replace(PLACED[0].request, ranks_per_node=2, comm_cores=0, comm_policy="own"))
    whole = placement.ranks[0]
    narrowed = replace(whole, threads=22)
    told = replace(placement, ranks=(narrowed, placement.ranks[1]))
    threads = team(iomp, node, told, narrowed, tmp_path)
    assert set(whole.cores) - {mask[0] for mask in threads} == {38, 42}
