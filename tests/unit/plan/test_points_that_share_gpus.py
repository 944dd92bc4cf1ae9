"""Points of a sweep that share the GPUs of a node (`points_per_gpu`): the plan of the node, and what is refused, where."""

from __future__ import annotations

from collections import Counter

import pytest

from dlrun.model.problem import InvalidFile
from tests.making import SLURM, fault_of, plan_of, scripts_of

SITE = (
    SLURM
    + """\
partitions: {work: {default: true, node_type: n, exclusive: true}}
node_types: {n: {memory: 180GiB, topology: {packages: 2, cores: 8, gpus: {count: 4, numa: [0, 0, 1, 1]}}}}
"""
)
SWEEP = "command: [train, '{{ x }}', '{{ world_size }}', '{{ gpus_per_node }}']\nsweep: {%s, x: [1, 2, 3]}\n"
MPS = SITE + "gpu_binding: {policy: visible, mps: true}\n"


def test_each_point_has_cores_of_its_own_and_one_gpu_that_it_shares(tmp_path):
    plan = plan_of(tmp_path, SWEEP % "nodes: 2, points_per_gpu: 2", SITE)
    assert (plan.pool.places, plan.pool.share) == (8, 1 / 8)
    asked = {one.text for one in plan.directives}
    assert {"--nodes=2", "--gpus-per-node=4", "--ntasks-per-node=8"} <= asked, asked
    placed = plan.binding.placement.ranks
    assert Counter(rank.gpus for rank in placed) == {(0,): 2, (1,): 2, (2,): 2, (3,): 2}
    assert sorted(core for rank in placed for core in rank.cores) == list(range(16))
    assert {rank.numa for rank in placed if rank.gpus <= (1,)} == {(0,)}, "next to its GPU"
    (reason,) = [one for one in plan.decisions if one.key == "sweep.points_per_node"]
    assert (reason.value, reason.because) == (8, "4 GPUs of a node × 2 points")
    assert plan.warnings == ()
    rank = scripts_of(plan)["rank.sh"]
    assert "CUDA_VISIBLE_DEVICES 0,0,1,1,2,2,3,3" in rank, "should fewer be granted, they are divided"
    assert "5) dlrun_bind 2 10-11 --preferred=1; dlrun_show_gpus CUDA_VISIBLE_DEVICES 2 ;;" in rank
    assert "dlrun_run train 1 1 1 ;;" in rank


FAULTS = [
    ("points_per_gpu: 2", "", "2,", "`points_per_gpu` has no effect without `nodes`", "add `nodes`"),
    ("nodes: 1, points_per_gpu: 2, points_per_node: 4", "", "2,", "are both given", "remove `points_per_node`"),
    ("nodes: 1, points_per_gpu: 2", "resources: {gpus_per_node: 2}", "2}", "one rank and one GPU", "remove `gpus_per_node`"),
    ("nodes: 1, points_per_gpu: 2", "resources: {ranks_per_node: 2}", "2}", "one rank and one GPU", "remove `ranks_per_node`"),
    ("nodes: 1, points_per_node: 4, mps: true", "", "true", "no effect without `points_per_gpu`", "add `points_per_gpu`"),
    ("points_per_node: 1, mps: true", "", "true", "no effect without `nodes`", "add `nodes`"),
    ("nodes: 1, points_per_gpu: 5", "", "5,", "20 ranks need 20 cores", "fewer `points_per_gpu`"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("sweep", "more", "at", "message", "help_"), FAULTS, ids=[f"{one[0]} {one[1]}" for one in FAULTS]
)
def test_what_is_wrong_is_said_once_and_at_its_place(tmp_path, sweep, more, at, message, help_):
    code, text, way_out, line = fault_of(tmp_path, f"{SWEEP % sweep}{more}\n", MPS)
    assert (code, line[: len(at)]) == ("DLR140", at)
    assert message in text
    assert help_ in way_out


@pytest.mark.parametrize(
    ("nodes", "what"),
    [("", "which is unknown"), ("node_types: {n: {topology: {packages: 2, cores: 8}}}\n", "which has none")],
)
def test_nodes_without_gpus_cannot_share_them(tmp_path, nodes, what):
    site = SLURM + "partitions: {work: {default: true, exclusive: true}}\n" + nodes
    with pytest.raises(InvalidFile) as raised:
        plan_of(tmp_path, SWEEP % "nodes: 1, points_per_gpu: 2, mps: true", site)
    (first, *_) = found = [problem for problem in raised.value.problems if not problem.warning]
    assert not any("`mps` has no effect" in problem.message for problem in found)
    assert (first.code, what in first.message) == ("DLR140", True)
    assert "`points_per_node`" in first.help


def test_points_under_mps_have_an_equal_share_of_their_gpu(tmp_path):
    plan = plan_of(tmp_path, SWEEP % "nodes: 2, points_per_gpu: 3, mps: true", MPS)
    assert plan.pool.mps_share == 33
    assert "\n  export DLRUN_MPS_SHARE=33 # " in scripts_of(plan)["job.sh"]
    without = plan_of(tmp_path, SWEEP % "nodes: 2, points_per_gpu: 3", MPS)
    assert "MPS" not in scripts_of(without)["job.sh"]


@pytest.mark.parametrize(
    ("site", "more", "message", "way_out"),
    [
        (SITE, "", "does not state that users may start NVIDIA's MPS", "`gpu_binding: {mps: true}`"),
        (MPS.replace("slurm", "flux"), "", "cannot be used yet on flux", "take turns"),
        (MPS.replace("count: 4", "kind: rocm, count: 4"), "", "for GPUs of NVIDIA only", "remove `mps`"),
        (
            MPS,
            "environment: {container: {image: /x.sif, runtime: apptainer}}\n",
            "in a container",
            "remove `mps`",
        ),
    ],
    ids=["not permitted", "flux", "AMD", "container"],
)
def test_where_mps_cannot_be_used(tmp_path, site, more, message, way_out):
    with pytest.raises(InvalidFile) as raised:
        plan_of(tmp_path, SWEEP % "nodes: 1, points_per_gpu: 2, mps: true" + more, site)
    found = [one for one in raised.value.problems if message in one.message]
    assert [(one.code, way_out in one.help) for one in found] == [("DLR140", True)]
