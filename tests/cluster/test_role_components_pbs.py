"""Roles on nodes of several types, on a real OpenPBS: chunks of one job, in the order of the roles."""

from __future__ import annotations

import json
import os

import pytest

from tests.cluster import (
    Cluster,
    ClusterSpec,
    NodeType,
    Partition,
    test_role_components as of_slurm,
    why_no_pbs,
    why_not,
)

_WHY_NOT = why_not() or why_no_pbs()
pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(_WHY_NOT), reason=_WHY_NOT)]

SITE = {
    **of_slurm.SITE,
    "name": "test-pbs",
    "scheduler": {"type": "openpbs"},
    "launcher": {"name": "ssh"},
    "partitions": {"work": {"default": True, "node_type": "gpu"}},
}


@pytest.fixture(scope="module")
def cluster():
    thin = NodeType(name="c", count=2, sockets=1, cores=2, memory_mib=2000)
    spec = ClusterSpec(
        scheduler="pbs",
        node_types=(thin, NodeType(count=2, gpus=2)),
        partitions=(Partition(name="work", default=True, max_time="1-00:00:00"),),
        sshd=True,
    )
    with Cluster(spec, name=f"components-pbs-{os.getpid()}") as running:
        yield running


@pytest.fixture(scope="module")
def alice(cluster):
    return of_slurm.with_programs(cluster, SITE)


def test_roles_on_two_types_of_nodes_start_together(alice):
    job = of_slurm.submit(alice, "both")
    (run,) = alice.ended(job, 120)
    assert (run["state"], run["exit_code"]) == ("completed", 0), alice.log(job)
    hosts = {
        role: json.loads((alice.job_dir(job) / f"roles/{role}/role.json").read_text())["hosts"]
        for role in ("train", "judge")
    }
    assert hosts == {"train": ["n1", "n2"], "judge": ["c1", "c2"]}
    logs = [alice.job_dir(job) / f"roles/train/logs/rank-{rank}.log" for rank in range(4)]
    steps = [
        [line.split() for line in log.read_text().splitlines() if line.startswith("step")] for log in logs
    ]
    assert [{line[5] for line in each} for each in steps] == [{"n1"}, {"n1"}, {"n2"}, {"n2"}]
    assert {line[-1] for each in steps for line in each} == {"c1"}
    done = alice.cluster.on("login", ["qstat", "-f", "-x", "-F", "json", job], check=True)
    asked = next(iter(json.loads(done.stdout)["Jobs"].values()))["Resource_List"]
    assert (asked["nodect"], asked["ngpus"]) == (4, 4)
    alice.left_nothing(job, of_slurm.NODES)


def test_a_job_that_is_cancelled_leaves_nothing_on_any_node(alice):
    of_slurm.test_the_job_is_one_in_all_commands(alice)


def test_a_judge_on_another_component_that_is_killed_is_the_cause(alice):
    of_slurm.test_a_judge_on_another_component_that_is_killed_is_the_cause(alice)


def test_before_the_walltime_all_components_start_again(alice):
    of_slurm.test_before_the_walltime_all_components_start_again(alice)


def test_the_data_of_each_role_are_copied_to_its_nodes(alice):
    of_slurm.test_the_data_of_each_role_are_copied_to_its_nodes(alice)
