"""What ranks report beside what was planned: each way to differ is seen, and its likely cause named."""

from __future__ import annotations

import pytest

from dlrun.effects.verify import compare
from tests.making import plan_of

SITE = """\
name: there
scheduler: {type: slurm}
launcher: {name: srun}
gpu_binding: {policy: visible}
node_types:
  gpu:
    topology: {packages: 2, cores: 4, gpus: {count: 2, numa: [0, 1]}}
partitions: {gpu: {node_type: gpu, default: true}}
"""
HOSTS = ["n1", "n2"]


@pytest.fixture
def plan(tmp_path):
    return plan_of(tmp_path, "resources: {nodes: 2, ranks_per_node: 2, exclusive: true, walltime: 1h}", SITE)


def right(plan) -> dict[int, dict]:
    """Reports of ranks that are all as planned."""
    found = {}
    for rank in range(4):
        planned = plan.binding.placement.ranks[rank % 2]
        found[rank] = {
            "rank": rank,
            "host": HOSTS[rank // 2],
            "mask": list(planned.mask),
            "threads": str(plan.request.threads),
            "memory": f"prefer:{rank % 2}",
            "gpus": {"CUDA_VISIBLE_DEVICES": ",".join(map(str, planned.gpus))},
            "sum": 10,
            "clock": 0.01,
        }
    return found


def test_ranks_as_planned_do_not_differ(plan):
    assert [one.differences for one in compare(plan, right(plan), HOSTS)] == [()] * 4


@pytest.mark.parametrize(
    ("change", "what", "cause"),
    [
        ({"mask": list(range(8))}, "may use CPUs 0-7, not", "nothing bound it"),
        ({"mask": [0]}, "may use CPUs 0, not", "fewer cores"),
        ({"mask": [4, 5, 6, 7]}, "may use CPUs 4-7, not", "numbers its cores otherwise"),
        ({"host": "n2"}, "runs on n2, not n1", "does not fill nodes in order"),
        ({"threads": "64"}, "OMP_NUM_THREADS is 64", "sets it"),
        ({"memory": "default"}, "memory policy is default", "numactl is missing"),
        ({"gpus": {"CUDA_VISIBLE_DEVICES": "1"}}, "CUDA_VISIBLE_DEVICES is 1, not 0", "sets it"),
        ({"gpus": {}}, "CUDA_VISIBLE_DEVICES is None, not 0", "sets it"),
        ({"clock": -7.0}, "its clock is -7.0 s from rank 0's", "time service"),
        ({"sum": 9}, "the sum over all ranks is 9, not 10", "another run"),
        ({"unreached": "timed out"}, "does not reach rank 0: timed out", "rendezvous rule"),
    ],
)
def test_each_difference_is_seen_with_a_likely_cause(plan, change, what, cause):
    found = right(plan)
    found[0] |= change
    zero, *others = compare(plan, found, HOSTS)
    assert [one.differences for one in others] == [()] * 3
    (difference,) = zero.differences
    assert what in difference.what
    assert cause in difference.cause


def test_a_silent_rank_is_a_difference(plan):
    found = right(plan)
    del found[3]
    assert [len(one.differences) for one in compare(plan, found, HOSTS)] == [0, 0, 0, 1]


def test_where_cores_are_shared_out_ranks_must_not_have_the_same(tmp_path):
    plan = plan_of(tmp_path, "resources: {ranks_per_node: 2}\nplacement: {bind: job}", SITE)
    found = right(plan_of(tmp_path, "resources: {nodes: 2, ranks_per_node: 2, exclusive: true}", SITE))
    reports = {rank: found[rank] | {"sum": 3, "threads": None} for rank in (0, 1)}
    assert [one.differences for one in compare(plan, reports, HOSTS)] == [(), ()]
    reports[1]["mask"] = reports[0]["mask"]
    assert ["shares CPUs" in one.differences[0].what for one in compare(plan, reports, HOSTS)] == [True, True]
