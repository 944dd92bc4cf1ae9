"""Types of GPUs and MIG slices: in the request on Slurm, elsewhere what the site's profile names for them."""

from __future__ import annotations

import pytest

from dlrun import backends
from dlrun.model.site import Complexes
from tests.unit.schedulers.making import lines, request, site

TYPES = {"a100": "gpu_type=a100", "1g.10gb": "mig=1g10"}
GRID_ENGINE = {"parallel_environment": "mpi-{slots}", "complexes": Complexes(gpu="gpu")}


@pytest.mark.parametrize(
    ("scheduler", "at", "constraint", "expected"),
    [
        ("openpbs", {"gpus": "ngpus"}, None, "-l select=2:mpiprocs=2:ngpus=2:{}"),
        ("openpbs", {"gpus": "ngpus"}, "fast", "-l select=2:mpiprocs=2:ngpus=2:fast:{}"),
        ("torque", {"gpus": "ngpus"}, "fast", "-l nodes=2:ppn=2:gpus=2:fast:{}"),
        ("gridengine", GRID_ENGINE, None, "-l {}"),
        ("gridengine", GRID_ENGINE, "fast=1", "-l fast=1,{}"),
        ("flux", {}, None, "--requires={}"),
        ("flux", {}, "fast", "--requires='fast and {}'"),
    ],
)
@pytest.mark.parametrize("kind", TYPES)
def test_what_selects_a_type_joins_the_constraint(scheduler, at, constraint, expected, kind):
    asked = request(gpus_per_node=2, gpu_type=kind, constraint=constraint)
    written = lines(backends.scheduler(scheduler), asked, site(scheduler, gpu_types=TYPES, **at))
    assert expected.format(TYPES[kind]) in written


@pytest.mark.parametrize("kind", TYPES)
def test_slurm_has_types_in_the_request(kind):
    written = lines(backends.scheduler("slurm"), request(gpus_per_node=2, gpu_type=kind), site("slurm"))
    assert f"--gpus-per-node={kind}:2" in written
