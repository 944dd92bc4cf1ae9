"""Compiled code from the user's store on a real Grid Engine, OpenPBS and Flux: jobs on three nodes, roles and points."""

from __future__ import annotations

import importlib
import os

import pytest

from tests.cluster import (
    Cluster,
    ClusterSpec,
    NodeType,
    Partition,
    test_caches,
    why_no_flux,
    why_no_gridengine,
    why_no_pbs,
    why_not,
)
from tests.cluster.jobs import User

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
    pytest.mark.needs("cc"),
]
WHY_NOT = {"flux": why_no_flux, "gridengine": why_no_gridengine, "pbs": why_no_pbs}


@pytest.fixture(scope="module", params=WHY_NOT)
def cluster(request):
    if why := WHY_NOT[request.param]():
        pytest.skip(why)
    spec = ClusterSpec(
        scheduler=request.param,
        node_types=(NodeType(count=3),),
        partitions=(Partition(name="work", default=True, max_time="1-00:00:00"),),
        sshd=True,
    )
    with Cluster(spec, name=f"caches-{request.param}-{os.getpid()}") as running:
        yield running


@pytest.fixture
def alice(cluster):
    site = importlib.import_module(f"tests.cluster.test_{cluster.spec.scheduler}").SITE
    own = {key: value for key, value in site["scheduler"].items() if key != "gpus"}
    types = {"n": {"topology": {"packages": 2, "cores": 4}}}
    storage = test_caches.SITE["storage"]
    yield from test_caches.with_programs(
        User(cluster, {**site, "scheduler": own, "node_types": types, "storage": storage})
    )


@pytest.fixture
def alice_with_roles(alice):
    if alice.cluster.spec.scheduler == "gridengine":
        pytest.skip("dlrun has neither roles nor points in one job of Grid Engine")
    return alice


def test_a_second_job_compiles_nothing(alice):
    test_caches.test_a_second_job_compiles_nothing(alice)


def test_a_run_after_a_requeue_compiles_nothing(alice):
    if alice.cluster.spec.scheduler == "flux":
        pytest.skip("Flux does not start a job again")
    # Grid Engine's next run can have no node of the first one but the script's.
    test_caches.start_again(alice, nodes=2 if alice.cluster.spec.scheduler == "gridengine" else 3)


def test_what_a_role_on_other_nodes_compiles_is_saved_at_the_signal_to_save(alice_with_roles):
    test_caches.test_what_a_role_on_other_nodes_compiles_is_saved_at_the_signal_to_save(alice_with_roles)


def test_roles_on_all_nodes_keep_what_they_compile(alice_with_roles):
    test_caches.test_roles_on_all_nodes_keep_what_they_compile(alice_with_roles)


def test_the_points_of_a_job_keep_what_they_compile(alice_with_roles):
    test_caches.test_the_points_of_a_job_keep_what_they_compile(alice_with_roles)
