"""Several programs in one job, on a real Flux: nodes of its own for each, addresses, one end, and nothing left."""

from __future__ import annotations

import json
import os

import pytest

from tests.cluster import (
    Cluster,
    ClusterSpec,
    NodeType,
    Partition,
    test_role_nodes,
    test_roles,
    why_no_flux,
    why_not,
)
from tests.cluster.hosts import await_true
from tests.cluster.test_flux import SITE
from tests.cluster.test_roles import NODES

_WHY_NOT = why_not() or why_no_flux()
pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(_WHY_NOT), reason=_WHY_NOT)]


@pytest.fixture(scope="module")
def cluster():
    spec = ClusterSpec(
        scheduler="flux",
        node_types=(NodeType(count=len(NODES)),),
        partitions=(Partition(name="work", default=True, max_time="1-00:00:00"),),
        sshd=True,
    )
    with Cluster(spec, name=f"roles-flux-{os.getpid()}") as running:
        yield running


@pytest.fixture(scope="module")
def alice(cluster):
    return test_roles.with_programs(cluster, SITE)


def test_a_training_asks_its_judge_on_another_node(alice):
    job = test_roles.submit(alice, 5, order=("train", "judge"))
    (run,) = alice.ended(job, 120)
    assert (run["state"], run["exit_code"]) == ("completed", 0), alice.log(job)
    directory = alice.job_dir(job)
    assert json.loads((directory / "roles/judge/role.json").read_text())["hosts"] == ["n3"]
    logs = sorted((directory / "roles/train/logs").glob("rank-*.log"))
    lines = [[line for line in log.read_text().splitlines() if line.startswith("step")] for log in logs]
    assert [len(each) for each in lines] == [5] * 4, alice.log(job)
    assert {line.split()[5] for each in lines for line in each} == {"n1", "n2"}
    assert {line.split()[-1] for each in lines for line in each} == {"n3"}
    alice.left_nothing(job, NODES)


def test_a_judge_that_is_killed_is_the_cause(alice):
    test_roles.test_a_judge_that_is_killed_is_the_cause(alice)


def test_a_training_that_fails_ends_its_judge(alice):
    test_roles.test_a_training_that_fails_ends_its_judge(alice)


def test_a_job_that_is_cancelled_leaves_nothing(alice):
    job = test_roles.submit(alice, 200)
    log = alice.job_dir(job) / "roles/train/logs/rank-0.log"
    await_true(lambda: log.exists() and "step 1 " in log.read_text(), 90, "the training to begin")
    alice.dlrun("cancel", job)
    (run,) = alice.ended(job, 60)
    assert run["state"] == "cancelled", alice.log(job)
    alice.left_nothing(job, NODES)


def test_before_the_walltime_the_training_saves_and_the_job_goes_on(alice):
    test_roles.test_before_the_walltime_the_training_saves_and_the_job_goes_on(alice)


def test_data_come_to_the_nodes_of_a_role_and_go_with_the_job(alice):
    test_roles.test_the_data_of_each_role_are_copied_to_its_nodes(alice)


def test_results_are_copied_before_the_services_end(alice):
    test_roles.test_results_are_copied_before_the_services_end(alice)


def test_a_bad_node_gets_no_role(alice):
    test_role_nodes.a_bad_node_gets_no_role(alice)


def test_what_roles_write_beside_code_on_their_nodes_comes_back(alice):
    test_roles.test_what_roles_write_beside_code_on_their_nodes_comes_back(alice)


def test_the_loss_of_the_first_node_has_a_way_out(alice):
    answer = test_roles.lose_the_first_node(alice)
    assert "`dlrun resubmit" in answer["next"]
    assert "was on the lost node" in answer["next"]
