"""Jobs that may start in any of several partitions."""

from __future__ import annotations

import pytest

from dlrun.model.problem import InvalidFile
from tests.making import plan_of

SITE = """\
name: s
scheduler: {type: SCHEDULER}
launcher: {name: ssh}
partitions:
  gpu: {default: true, node_type: g, max_walltime: 24h, max_nodes: 8}
  long: {node_type: g, max_walltime: 7d, max_nodes: 2}
  debug: {node_type: g, max_walltime: 30m, max_nodes: 2, queue: dbg}
  other-qos: {node_type: g, qos: q}
  cpu: {node_type: c}
node_types:
  g: {count: 8, topology: {packages: 2, cores: 8, gpus: {count: 2, numa: [0, 1]}}}
  c: {count: 8, topology: {packages: 2, cores: 8}}
"""


def planned(tmp_path, resources, scheduler="slurm"):
    spec = f"framework: torch\nresources: {{nodes: 2, {resources}}}"
    return plan_of(tmp_path, spec, SITE.replace("SCHEDULER", scheduler))


@pytest.mark.parametrize(
    ("resources", "queues"),
    [
        ("partition: 'gpu,long', walltime: 2h", "gpu,long"),
        ("partition: 'long, gpu', walltime: 2h", "long,gpu"),
        ("partition: [gpu, debug], walltime: 10m", "gpu,dbg"),
        ("partition: 'gpu,gpu', walltime: 2h", "gpu"),
        ("partition: any, walltime: 10m", "gpu,long,dbg"),
        ("partition: any, walltime: 2d", "long"),
        ("partition: any, walltime: 2h", "gpu,long"),
    ],
)
def test_the_scheduler_gets_all_that_accept_the_job(tmp_path, resources, queues):
    plan = planned(tmp_path, resources)
    assert plan.request.partition == queues
    assert f"--partition={queues}" in [directive.text for directive in plan.directives]
    assert (plan.request.gpus_per_node, plan.request.ranks_per_node) == (2, 2)


@pytest.mark.parametrize(
    ("resources", "code", "message"),
    [
        ("partition: 'gpu,cpu'", "DLR075", "`gpu` and `cpu` cannot be used together: their `node_type` differs"),
        ("partition: 'gpu,other-qos'", "DLR075", "cannot be used together: their `qos` differs"),
        ("partition: 'gpu,lnog', walltime: 9d", "DLR012", "site `s` has no partition `lnog`"),
        ("partition: 'gpu,debug', walltime: 2h", "DLR014", "walltime 2h exceeds the limit of partition `debug`, 30m"),
        ("partition: any, walltime: 9d", "DLR014", "walltime 9d exceeds the limit of partition `gpu`, 1d"),
    ],
)  # fmt: skip
def test_each_partition_is_checked(tmp_path, resources, code, message):
    with pytest.raises(InvalidFile) as raised:
        planned(tmp_path, resources)
    (found,) = [problem for problem in raised.value.problems if not problem.warning]
    assert (found.code, message in found.message) == (code, True)


@pytest.mark.parametrize(
    ("resources", "queue"),
    [
        ("partition: 'gpu,long', walltime: 2h", "gpu"),
        ("partition: 'debug,gpu,long', walltime: 2h", "gpu"),
        ("partition: [gpu, long], walltime: 2d", "long"),
        ("partition: any, walltime: 10m", "gpu"),
    ],
)
def test_a_job_of_other_schedulers_is_in_the_first_queue_that_accepts_it(tmp_path, resources, queue):
    assert planned(tmp_path, resources, "openpbs").request.partition == queue


@pytest.mark.parametrize(
    ("resources", "code"),
    [("partition: 'gpu,cpu'", "DLR075"), ("partition: 'gpu,long', walltime: 9d", "DLR014")],
)
def test_no_queue_that_accepts_the_job_is_one_problem(tmp_path, resources, code):
    with pytest.raises(InvalidFile) as raised:
        planned(tmp_path, resources, "openpbs")
    assert [problem.code for problem in raised.value.problems if not problem.warning] == [code]


def test_a_site_without_partitions_passes_the_names_on(tmp_path):
    spec = "framework: torch\nresources: {nodes: 2, partition: 'a,b', gpus_per_node: 1}"
    plan = plan_of(tmp_path, spec, "name: s\nscheduler: {type: slurm}\nlauncher: {name: srun}\n")
    assert plan.request.partition == "a,b"
    with pytest.raises(InvalidFile, match="in one queue, but the spec names 2"):
        plan_of(tmp_path, spec, "name: s\nscheduler: {type: openpbs}\nlauncher: {name: ssh}\n")
