"""What tests of a job with points have on Flux and OpenPBS, where these are installed: a cluster, and a user of it."""

from __future__ import annotations

import importlib
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, why_no_flux, why_no_pbs
from tests.cluster.jobs import User

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def cluster_of(scheduler: str, name: str, nodes: NodeType) -> Iterator[Cluster]:
    """A cluster with one partition; the test is skipped where the scheduler is not there."""
    if why := {"flux": why_no_flux, "pbs": why_no_pbs}[scheduler]():
        pytest.skip(why)
    work = Partition(name="work", default=True, max_time="1-00:00:00")
    spec = ClusterSpec(scheduler=scheduler, node_types=(nodes,), partitions=(work,), sshd=True)
    with Cluster(spec, name=f"{name}-{scheduler}-{os.getpid()}") as running:
        yield running


def user_of(cluster: Cluster) -> User:
    """A user whose site is that of the scheduler's own tests, with nodes of two packages."""
    site = importlib.import_module(f"tests.cluster.test_{cluster.spec.scheduler}").SITE
    own = {key: value for key, value in site["scheduler"].items() if key != "gpus"}
    types = {"n": {"topology": {"packages": 2, "cores": 4}}}
    return User(cluster, {**site, "scheduler": own, "node_types": types})
