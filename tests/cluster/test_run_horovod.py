"""Horovod under `dlrun run` in real allocations.

In a file of its own: it is compiled while other tests run, and files with few tests come last.
"""

from __future__ import annotations

import shlex

import pytest

from tests.cluster import test_run_elsewhere as elsewhere, why_not
from tests.cluster.test_run import check_example, example, salloc

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(why_not()), reason=why_not())]

CONTROLLERS = {"Gloo": (), "MPI": ("--launcher", "openmpi")}
"""What Horovod's ranks find each other by: MPI under the MPI's own launcher, Gloo under that of the scheduler."""
cluster, alice, way = elsewhere.cluster, elsewhere.alice, elsewhere.way
nothing_is_left = elsewhere.nothing_is_left


@pytest.mark.torch
@pytest.mark.usefixtures("nothing_is_left")
@pytest.mark.parametrize("controller", CONTROLLERS)
def test_horovod_trains(alice, way, cluster, controller):
    if controller == "MPI" and cluster.spec.scheduler == "flux":
        pytest.skip(
            "Horovod is built with Debian's Open MPI, which ends with a segmentation fault in a job of Flux"
        )
    words = example("horovod", *CONTROLLERS[controller])
    if cluster.spec.scheduler == "slurm":
        done = salloc(alice, *words)
        code, log = done.returncode, done.stdout + done.stderr
    else:
        code, log = elsewhere.batch(alice, way, f"{shlex.join(words)}\n")
    assert code == 0, log
    check_example(log, controller)
