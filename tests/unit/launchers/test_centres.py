"""Launchers that one vendor or centre has: their words, and the steps of plans on the profiles that name them."""

from __future__ import annotations

import pytest

from dlrun import backends
from dlrun.launchers.protocol import Step
from dlrun.model.problem import InvalidFile
from dlrun.model.site import LauncherSite
from dlrun.render.shell import join
from tests.making import plan_of


def words(name, *, arguments=(), **step):
    whole = {"nodes": 2, "first_only": False, "per_node": 4, "count": 8, "scheduler": "openpbs", **step}
    return join(backends.launcher(name).start(Step(**whole), LauncherSite(name=name, arguments=arguments)))


def test_pals_says_the_whole_layout():
    assert words("pals") == 'mpiexec -n 8 --ppn 4 --hostfile "$DLRUN_HOSTS" --cpu-bind none'
    assert '"$DLRUN_HOSTS"-first' in words("pals", first_only=True, count=4, nodes=1)
    bound = words("pals", bound=True, cores=4, cpus=8, arguments=("--pmi=pmix",))
    assert bound.endswith("--cpu-bind depth --depth 8 --pmi=pmix")


def test_ibrun_takes_ranks_from_the_first_slot_on():
    assert words("ibrun") == "ibrun -n 8 -o 0"


def test_ibrun_starts_one_process_on_each_node_if_told_so():
    """With ranks' slots alone, two agents would both be on the first node."""
    assert (
        words("ibrun", per_node=1, count=2, ranks_per_node=4) == "env TACC_TASKS_PER_NODE=1 ibrun -n 2 -o 0"
    )
    assert words("ibrun", per_node=1, count=2, ranks_per_node=1) == "ibrun -n 2 -o 0"
    assert (
        words("ibrun", per_node=1, count=1, nodes=1, first_only=True, ranks_per_node=4) == "ibrun -n 1 -o 0"
    )


@pytest.mark.parametrize("name", ["pals", "ibrun"])
def test_mpi_programs_can_be_started(tmp_path, name):
    site = f"name: centre\nscheduler: {{type: openpbs}}\nlauncher: {{name: {name}}}\n"
    plan = plan_of(tmp_path, "framework: mpi\nresources: {nodes: 2, ranks_per_node: 3}", site)
    assert plan.launch.name == name
    assert "PMI_RANK" in plan.launch.identity.rank.code


@pytest.mark.parametrize(
    ("spec", "refused"),
    [
        ("framework: torch\nresources: {nodes: 2, ranks_per_node: 4}", False),
        ("framework: mxnet\nresources: {nodes: 2, ranks_per_node: 1}", False),
        ("framework: mxnet\nresources: {nodes: 2, ranks_per_node: 4}", False),
        ("framework: mxnet\nmxnet: {servers_per_node: 2}\nresources: {nodes: 2, ranks_per_node: 4}", True),
        ("framework: mxnet\nmxnet: {servers_per_node: 4}\nresources: {nodes: 2, ranks_per_node: 4}", False),
        ("framework: torch\ntorch: {agent: true}\nresources: {nodes: 2, ranks_per_node: 4}", False),
        ("framework: torch\ntorch: {agent: true}\nresources: {nodes: 1, ranks_per_node: 4}", False),
    ],
)
def test_ibrun_lays_out_nothing_but_the_ranks(spec, refused, tmp_path):
    """It starts as many processes on each node as there are ranks, or one."""
    site = "name: tacc\nscheduler: {type: slurm}\nlauncher: {name: ibrun}\n"
    if not refused:
        assert plan_of(tmp_path, spec, site).roles
        return
    with pytest.raises(InvalidFile) as failure:
        plan_of(tmp_path, spec, site)
    (problem,) = [found for found in failure.value.problems if found.code == "DLR028"]
    assert "can start only 4 processes per node" in problem.message
