"""`fabric.when_set: keep`: what a module has set stays, and the plan states that it may."""

from __future__ import annotations

import subprocess

from dlrun.render.shell import quote
from tests.unit.plan.test_codes import BARE, plan_of

SITE = (
    BARE
    + "fabric: {name: slingshot, interfaces: [hsn0], when_set: keep, settings: {NCCL_IB_HCA: '=mlx5_0:1,mlx5_1', X: 'a$b'}}\n"
)


def exported(value, **environment):
    line = f'export NCCL_SOCKET_IFNAME={quote(value)}; printf %s "$NCCL_SOCKET_IFNAME"'
    done = subprocess.run(["bash", "-uc", line], env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def test_a_value_of_a_module_stays(tmp_path):
    plan = plan_of(tmp_path, "resources: {nodes: 2, gpus_per_node: 1}", SITE)
    found = {variable.name: variable for variable in plan.variables}
    interface = found["NCCL_SOCKET_IFNAME"]
    assert exported(interface.value) == "hsn0"
    assert exported(interface.value, NCCL_SOCKET_IFNAME="hsn0,hsn1") == "hsn0,hsn1"
    assert interface.because.endswith("a value set by a module is kept")
    assert str(found["NCCL_IB_HCA"].value) == "${NCCL_IB_HCA:-=mlx5_0:1,mlx5_1}"
    assert found["X"].value.literal == "a$b", "a value that the shell would change is set as it is"
    assert found["OMP_NUM_THREADS"].value.literal is not None or "DLRUN" in str(
        found["OMP_NUM_THREADS"].value
    )


def test_without_it_dlrun_s_value_replaces_the_module_s(tmp_path):
    plan = plan_of(tmp_path, "resources: {nodes: 2, gpus_per_node: 1}", SITE.replace("when_set: keep, ", ""))
    found = {variable.name: variable.value.literal for variable in plan.variables}
    assert found["NCCL_SOCKET_IFNAME"] == "hsn0"
