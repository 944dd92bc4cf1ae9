"""Who binds ranks, how many threads they compute with, and which variables say so."""

from __future__ import annotations

import json

import pytest

from dlrun.model.plan import Plan
from dlrun.model.problem import InvalidFile
from tests.making import LOCAL, decided, plan_of

SITE = """\
name: there
scheduler: {{type: slurm, exclusive: {exclusive}}}
launcher: {{name: srun}}
node_types:
  n: {{topology: {{packages: 2, cores: 8, smt: 2, gpus: {{count: 2, kind: {kind}, numa: [0, 1]}}}}}}
gpu_binding: {{policy: {policy}}}
"""
UNKNOWN = "name: there\nscheduler: {type: slurm, exclusive: true}\nlauncher: {name: srun}\n"


def plan(
    tmp_path, placement: str = "", *, exclusive="true", kind="cuda", policy="all", site=None, **more
) -> Plan:
    text = site or SITE.format(exclusive=exclusive, kind=kind, policy=policy)
    return plan_of(tmp_path, f"resources: {{walltime: 1h}}\nplacement: {{{placement}}}\n", text, **more)


def threads(made: Plan) -> str:
    return {v.name: str(v.value) for v in made.variables}["OMP_NUM_THREADS"]


@pytest.mark.parametrize(
    ("placement", "changes", "mode", "rule", "omp"),
    [
        ("", {}, "plan", "whole-node", "8"),
        ("", {"exclusive": "false"}, "job", "shared-node", "$DLRUN_THREADS"),
        ("", {"site": UNKNOWN}, "job", "unknown-node", "$DLRUN_THREADS"),
        ("bind: plan", {"exclusive": "false"}, "plan", "whole-node", "8"),
        ("bind: job", {}, "job", "as-written", "$DLRUN_THREADS"),
        ("bind: none", {}, "none", "as-written", "8"),
        ("bind: none", {"site": UNKNOWN}, "none", "as-written", "1"),
        ("bind: scheduler", {}, "scheduler", "as-written", "8"),
        ("bind: scheduler, loader_cores: 3", {}, "scheduler", "as-written", "5"),
        ("bind: scheduler, comm_cores: 2, loader_cores: 1", {}, "scheduler", "as-written", "5"),
        ("comm_cores: 1, loader_cores: 2", {}, "plan", "whole-node", "5"),
        ("smt: all", {}, "plan", "whole-node", "16"),
        ("threads: 3", {}, "plan", "whole-node", "3"),
        ("bind: job, threads: 3", {}, "job", "as-written", "3"),
    ],
)
def test_who_binds_and_threads(tmp_path, placement, changes, mode, rule, omp):
    made = plan(tmp_path, placement, **changes)
    assert (made.binding.mode, decided(made, "placement.bind")[1]) == (mode, rule)
    assert made.binding.because
    assert threads(made) == omp
    assert (made.binding.placement is not None) is (mode == "plan")


def test_more_ranks_than_cores_are_bound_by_nobody(tmp_path):
    made = plan(tmp_path, sets=["resources.ranks_per_node=20", "resources.gpus_per_node=0"])
    assert (made.binding.mode, decided(made, "placement.bind")) == ("none", ("none", "too-few-cores"))
    assert threads(made) == "1"


def test_one_machine_is_always_whole(tmp_path):
    made = plan_of(
        tmp_path, "resources: {ranks_per_node: 1}", LOCAL + "node_types: {n: {topology: {cores: 4}}}\n"
    )
    assert (made.binding.mode, made.request.exclusive) == ("plan", False)


@pytest.mark.parametrize(
    ("kind", "policy", "variable"),
    [
        ("cuda", "all", None),
        ("cuda", "scheduler", None),
        ("cuda", "visible", "CUDA_VISIBLE_DEVICES"),
        ("rocm", "visible", "ROCR_VISIBLE_DEVICES"),
        ("ze", "visible", "ZE_AFFINITY_MASK"),
        ("cuda", "visible, variable: HIP_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
    ],
)
def test_which_variable_shows_a_rank_its_gpus(tmp_path, kind, policy, variable):
    made = plan(tmp_path, kind=kind, policy=policy)
    assert made.binding.gpu_variable == variable
    assert [rank.gpus for rank in made.binding.placement.ranks] == [(0,), (1,)]


def test_a_user_s_threads_stay_and_are_noted(tmp_path):
    made = plan_of(
        tmp_path,
        "environment: {variables: {OMP_NUM_THREADS: '3'}}",
        SITE.format(exclusive="true", kind="cuda", policy="all"),
    )
    (variable,) = [v for v in made.variables if v.name == "OMP_NUM_THREADS"]
    assert (str(variable.value), variable.rule) == ("3", "user-variable")
    assert variable.because == "set by the spec, spec.yaml:2:44 (dlrun would have set 8: 16 cores / 2 ranks)"


def test_the_site_s_variables_stand_below_the_spec_s(tmp_path):
    site = UNKNOWN + "environment: {variables: {A: site, B: site, PYTHONUNBUFFERED: '0'}}\n"
    made = plan_of(tmp_path, "environment: {variables: {B: spec}}", site)
    told = {v.name: (str(v.value), v.because) for v in made.variables}
    assert told["A"] == ("site", "set by site there")
    assert told["B"][0] == "spec"
    assert told["PYTHONUNBUFFERED"][0] == "0"
    assert "dlrun would have set 1" in told["PYTHONUNBUFFERED"][1]


@pytest.mark.parametrize(
    ("rule", "address", "because"),
    [
        ("{}", "$DLRUN_FIRST_HOST", "under its name in the scheduler"),
        ("{suffix: -ib0}", "$DLRUN_FIRST_HOST-ib0", "with `-ib0` appended"),
        ("{address: fqdn}", "$(hostname -f)", "fully qualified name"),
        ("{address: ip}", "$(hostname -i | cut -d ' ' -f 1)", "`hostname -i`"),
        ("{address: interface, interface: hsn0}", "$(dlrun_address_of hsn0)", "the address of `hsn0`"),
        ("{address: loopback}", "127.0.0.1", "on this machine"),
    ],
)
def test_where_ranks_meet(tmp_path, rule, address, because):
    made = plan_of(tmp_path, "resources: {nodes: 1}", UNKNOWN + f"rendezvous: {rule}\n")
    assert made.rendezvous.address.code == address
    assert because in made.rendezvous.because
    assert (made.rendezvous.first_port, made.rendezvous.last_port, made.rendezvous.ports) == (20000, 29999, 1)


@pytest.mark.parametrize("variable", ["X; touch /tmp/x", "A B", "1A", "$(id)", "A=1", ""])
def test_the_variable_of_visible_gpus_is_the_name_of_one(tmp_path, variable):
    site = f"{UNKNOWN}gpu_binding: {{policy: visible, variable: {json.dumps(variable)}}}\n"
    with pytest.raises(InvalidFile) as found:
        plan_of(tmp_path, "name: a\ncommand: [x]\n", site)
    assert "gpu_binding.variable" in str(found.value)
