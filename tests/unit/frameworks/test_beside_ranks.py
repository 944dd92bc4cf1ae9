"""Processes beside bound ranks: on the communication cores of the node's ranks, else on the ranks' cores with a reason."""

from __future__ import annotations

import os

import pytest

from dlrun.affinity.settings import BindingContext, settings
from dlrun.frameworks.common import comm_cores
from dlrun.model.placement import NodeSummary, Placement, Preset
from tests.making import plan_of, scripts_of
from tests.unit.frameworks.making import placed, run_process

SITE = """\
name: here
scheduler: {{type: slurm, exclusive: true}}
launcher: {{name: srun}}
partitions: {{work: {{node_type: n, default: true}}}}
node_types: {{n: {{topology: {{packages: 1, cores: {cores}, smt: {smt}}}}}}}
"""
SERVERS = {
    "mxnet": ("mxnet", ("scheduler", "server")),
    "tensorflow": ("tensorflow\ntensorflow: {strategy: parameter_server}", ("ps", "chief")),
    "paddle": ("paddle\npaddle: {mode: parameter_server}", ("server",)),
}


def planned(place, framework, more="", *, cores=8, smt=1):
    spec = f"framework: {SERVERS[framework][0]}\nresources: {{nodes: 2, ranks_per_node: 2}}\n{more}"
    return plan_of(place, spec, SITE.format(cores=cores, smt=smt))


@pytest.mark.parametrize("framework", SERVERS)
def test_they_have_the_communication_cores_where_there_are_some(framework, tmp_path):
    plan = planned(tmp_path, framework, "placement: {comm_cores: 1}", smt=2)
    ranks = plan.binding.placement.ranks
    comm = {cpu for rank in ranks for cpu in (*rank.comm, *rank.comm_siblings[0])}
    masks = {cpu for rank in ranks for cpu in rank.mask}
    beside = [role for role in plan.roles if role.name in SERVERS[framework][1]]
    assert len(beside) == len(SERVERS[framework][1])
    assert all(set(role.cpus) == comm and not comm & masks for role in beside)
    script = scripts_of(plan)["rank.sh"]
    decided = {d.key: (d.rule, str(d.value)) for d in plan.decisions}
    for role in beside:
        assert {v.name: str(v.value) for v in role.variables}["OMP_NUM_THREADS"] == "2"
        assert f"{role.name}:*) dlrun_bind_beside 2 3,7,11,15 ;;" in script
        assert decided[f"roles.{role.name}"] == ("comm-cores", "3,7,11,15")


@pytest.mark.parametrize("framework", SERVERS)
def test_they_share_the_ranks_cores_with_a_reason_where_there_are_none(framework, tmp_path):
    plan = planned(tmp_path, framework)
    for name in SERVERS[framework][1]:
        (role,) = [role for role in plan.roles if role.name == name]
        (decision,) = [d for d in plan.decisions if d.key == f"roles.{name}"]
        assert (role.cpus, decision.rule, decision.value) == ((), "shares-cores", "shared")
        assert "`placement.comm_cores` reserves cores for it" in decision.because


def test_a_users_number_of_threads_is_kept(tmp_path):
    more = "placement: {comm_cores: 1}\nenvironment: {variables: {OMP_NUM_THREADS: 5}}"
    plan = planned(tmp_path, "mxnet", more)
    server = next(role for role in plan.roles if role.name == "server")
    assert server.cpus
    assert "OMP_NUM_THREADS" not in {v.name for v in server.variables}
    assert "server:*) dlrun_bind_beside 1 3,7 ;;" in scripts_of(plan)["rank.sh"]


@pytest.mark.skipif(not {0, 1} <= os.sched_getaffinity(0), reason="needs CPUs 0 and 1")
def test_a_server_is_bound_to_them(tmp_path):
    spec = (
        "framework: mxnet\ncommand: [bash, -c, 'grep Cpus_allowed_list /proc/self/status; echo $OMP_NUM_THREADS']\n"
        "resources: {nodes: 2, ranks_per_node: 1}\nplacement: {comm_cores: 1}\n"
    )
    site = SITE.format(cores=2, smt=1).replace("slurm", "openpbs").replace("srun", "ssh")
    assert run_process(tmp_path, spec, "server", 0, site=site).split()[-2:] == ["1", "1"]
    assert run_process(tmp_path, spec, "worker", 0, site=site).split()[-2:] == ["Cpus_allowed_list:", "0"]


@pytest.mark.parametrize("library", ["mlsl", "ccl", "horovod", "horovod-ccl"])
def test_jobs_and_tune_affinity_have_the_same_rules_for_libraries(library):
    placement = Placement(node=NodeSummary(), ranks=placed((2, 3), (6, 7)))
    of_job = {s.name: str(s.value) for s in comm_cores.of_library(library, placement.ranks)}
    assert of_job
    shown = settings(placement, BindingContext(preset=Preset(library=library)))
    assert {v.name: v.value for v in shown if v.rank is None} == of_job


def test_a_library_without_such_cores_is_left_alone_unless_a_number_is_given():
    ranks = placed((), ())
    assert comm_cores.of_library("ccl", ranks) == ()
    (found,) = comm_cores.of_library("ccl", ranks, otherwise=3)
    assert (found.name, found.value) == ("CCL_WORKER_COUNT", "3")
