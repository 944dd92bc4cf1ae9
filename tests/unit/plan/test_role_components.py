"""Roles on nodes of several types: one job with a component for each, and what it cannot have."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from dlrun.model.hostlist import expand
from dlrun.model.problem import InvalidFile
from tests.library import PARTS
from tests.making import SLURM, fault_of, plan_of, scripts_of

SITE = (
    SLURM
    + """\
billing: {unit: core-hours, factor: 1}
partitions:
  gpu: {default: true, node_type: gpu, exclusive: true, max_walltime: 1d}
  cpu: {node_type: cpu, exclusive: true, max_walltime: 2h, queue: batch}
  big: {node_type: big, exclusive: true}
  big-long: {node_type: big, exclusive: true}
node_types:
  gpu: {memory: 480GiB, topology: {packages: 2, cores: 8, gpus: {count: 4, numa: [0, 0, 1, 1]}}}
  cpu: {memory: 180GiB, constraint: thin, topology: {packages: 1, cores: 4}, overrides: {environment: {variables: {KIND: thin}}}}
  big: {topology: {packages: 1, cores: 64}}
"""
)
ROLES = """\
resources: {walltime: 1h, account: abc}
roles:
  judge:
    command: [judge, "{{ role.judge.port }}"]
    node_type: cpu
    nodes: 2
  train: {run: 'train {{ role.judge.address }}', nodes: 3, needs: [judge]}
  clients: {command: [clients], node_type: cpu, needs: [judge], ends: false}
"""


def lines_of(plan):
    """The directives of each component."""
    found = [[]]
    for one in plan.directives:
        if one.text == "hetjob":
            found.append([])
        else:
            found[-1].append(one.text)
    return found


def jobs(plan):
    return {role.name: role for role in plan.role_jobs.jobs}


def test_each_type_of_nodes_is_a_component_and_the_first_has_the_role_that_ends_the_job(tmp_path):
    plan = plan_of(tmp_path, ROLES, SITE)
    gpu, cpu = lines_of(plan)
    assert {"--nodes=3", "--partition=gpu", "--account=abc", "--gpus-per-node=4", "--time=01:00:00"} <= {*gpu}
    assert {"--nodes=3", "--partition=batch", "--account=abc", "--constraint=thin", "--time=01:00:00"} <= {
        *cpu
    }
    assert {"--job-name=run", "--no-requeue", "--exclusive"} <= {*gpu} & {*cpu}
    assert not [line for line in cpu if line.startswith(("--gpus", "--output", "--open-mode"))]
    assert [(name, role.component) for name, role in jobs(plan).items()] == [
        ("train", 0),
        ("judge", 1),
        ("clients", 1),
    ]
    assert plan.request.nodes == 6
    assert plan.cost.node_hours == 6


def test_a_role_is_planned_on_its_own_nodes(tmp_path):
    roles = jobs(plan_of(tmp_path, ROLES, SITE))
    assert roles["train"].plan.request.gpus_per_node == 4
    assert roles["judge"].plan.request.gpus_per_node is None
    assert roles["clients"].plan.request.cpus_per_rank == 4
    kinds = {
        name: [v.value.literal for v in role.plan.variables if v.name == "KIND"]
        for name, role in roles.items()
    }
    assert kinds == {"train": [], "judge": ["thin"], "clients": ["thin"]}


def test_the_steps_of_a_role_begin_in_its_component(tmp_path):
    plan = plan_of(tmp_path, ROLES, SITE)
    pages = scripts_of(plan)
    assert "srun --het-group=0 --nodes=3" in pages["roles/train/job.sh"]
    assert "srun --het-group=1 --nodes=2" in pages["roles/judge/job.sh"]
    assert "dlrun_granted_hosts dlrun_component_hosts" in pages["job.sh"]
    assert "#SBATCH hetjob\n" in pages["job.sh"]
    assert [role.get("component") for role in json.loads(pages["roles.json"])["roles"]] == [0, 1, 1]


def test_options_of_the_script_are_those_of_the_first_component(tmp_path):
    more = """\
hold: true
checkpoint: {signal: USR1, before_end: 2m}
on_failure: {requeue: 1}
"""
    options = "account: abc, options: {licenses: 'x:1', comment: y}"
    first, second = lines_of(plan_of(tmp_path, more + ROLES.replace("account: abc", options), SITE))
    own = {"--hold", "--open-mode=append", "--licenses=x:1"}
    assert own <= {*first}
    assert not own & {*second}
    assert any(line.startswith("--signal=") for line in first)
    assert not any(line.startswith("--signal=") for line in second)
    assert {"--requeue", "--comment=y"} <= {*first} & {*second}


def test_a_role_beside_another_is_on_its_nodes(tmp_path):
    beside = ROLES + "  scorer: {command: [scorer], beside: judge, needs: [judge], ends: false}\n"
    plan = plan_of(tmp_path, beside, SITE)
    assert jobs(plan)["scorer"].component == 1
    assert jobs(plan)["scorer"].plan.request.cpus_per_rank == 2
    assert plan.request.nodes == 6


def test_roles_on_nodes_of_one_type_are_one_job(tmp_path):
    plan = plan_of(tmp_path, ROLES.replace("node_type: cpu", "node_type: gpu"), SITE)
    assert len(lines_of(plan)) == 1
    assert [role.component for role in jobs(plan).values()] == [None] * 3
    assert "--het-group" not in scripts_of(plan)["roles/train/job.sh"]


def test_a_partition_has_its_type_of_nodes(tmp_path):
    plan = plan_of(tmp_path, ROLES.replace("node_type: cpu", "partition: big-long"), SITE)
    assert "--partition=big-long" in lines_of(plan)[1]
    assert jobs(plan)["judge"].plan.request.cpus_per_rank == 64


def test_the_job_of_the_roles_may_be_on_another_type_itself(tmp_path):
    plan = plan_of(tmp_path, ROLES.replace("account: abc", "partition: big-long"), SITE)
    assert "--partition=big-long" in lines_of(plan)[0]
    assert "--partition=batch" in lines_of(plan)[1]


FAULTS = {
    "so it has nodes of the same type": ROLES.replace(
        "{command: [clients], ", "{command: [clients], beside: judge, "
    ),
    "several partitions have nodes of type `big`": ROLES.replace("node_type: cpu", "node_type: big"),
    "site `somewhere` has no node type `cp`": ROLES.replace("node_type: cpu", "node_type: cp"),
    "no partition `x`": ROLES.replace("node_type: cpu", "partition: x"),
    "cannot leave open in which partition": ROLES.replace("account: abc", "partition: 'big,big-long'"),
    "`resources.hosts` does not tell": ROLES.replace("account: abc", "hosts: [n1]"),
    "launcher `openmpi` of role `judge` takes the nodes of the first type": "launcher: openmpi\n" + ROLES,
    "walltime 3h exceeds the limit of partition `cpu`, 2h": ROLES.replace("walltime: 1h", "walltime: 3h"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_such_a_job_cannot_have_is_refused(tmp_path, fault):
    with pytest.raises(InvalidFile, match=re.escape(fault)):
        plan_of(tmp_path, FAULTS[fault], SITE)


def test_inside_an_allocation_there_is_no_other_type(tmp_path):
    site = SITE.replace("type: slurm", "type: slurm-allocation")
    assert "cannot run inside an allocation" in str(fault_of(tmp_path, ROLES, site))


def test_the_hosts_of_all_components_are_printed_in_order(tmp_path):
    script = f"""\
scontrol() {{ printf '%s\\n' "$3"; }}
source {PARTS["slurm-components"]}
dlrun_component_hosts
env | grep -c HET_GROUP
"""
    found = {f"SLURM_JOB_NODELIST_HET_GROUP_{n}": f"n{n}" for n in range(12)}
    more = {"SLURM_HET_SIZE": "12", "SLURM_MEM_PER_CPU_HET_GROUP_1": "100", "PATH": "/usr/bin:/bin"}
    shown = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        env={**found, **more},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.split() == [*expand("n[0-11]"), "12"]


PBS = SITE.replace("{type: slurm}", "{type: openpbs}").replace("{name: srun}", "{name: ssh}")
ONE_QUEUE = PBS.replace(
    "cpu: {node_type: cpu, exclusive: true, max_walltime: 2h, queue: batch}", "cpu: {exclusive: true}"
)
BY_CHUNKS = ROLES.replace("resources: {walltime: 1h", "resources: {walltime: 1h, memory_per_node: 2GiB")


def test_openpbs_has_the_chunks_of_all_components_in_one_select(tmp_path):
    plan = plan_of(tmp_path, BY_CHUNKS, ONE_QUEUE)
    found = [one.text for one in plan.directives]
    assert [text for text in found if "select=" in text] == [
        "-l select=3:ncpus=16:mpiprocs=4:ompthreads=4:ngpus=4:mem=2gb+3:ncpus=4:mpiprocs=1:ompthreads=4:mem=2gb:thin"
    ]
    assert [text for text in found if text.startswith("-q")] == ["-q gpu"]
    assert len(found) == len(set(found))
    assert [(name, role.component) for name, role in jobs(plan).items()] == [
        ("train", 0),
        ("judge", 1),
        ("clients", 1),
    ]
    page = scripts_of(plan)["job.sh"]
    assert "dlrun_granted_hosts awk" in page
    assert "slurm" not in page.lower()


def test_openpbs_has_no_job_in_two_queues(tmp_path):
    code, message, way_out, place = fault_of(tmp_path, BY_CHUNKS, PBS)
    assert message == "a job of PBS cannot have `-q batch` for some of its roles beside `-q gpu`"
    assert "node types of one queue" in way_out
    assert (code, place.partition("\n")[0]) == ("DLR143", "cpu")


def test_openpbs_has_one_type_of_nodes_where_it_counts_those_of_the_job(tmp_path):
    site = ONE_QUEUE.replace("{type: openpbs}", "{type: openpbs, arithmetic: whole_job}").replace(
        "constraint: thin, ", ""
    )
    assert "in total, so their nodes are of one type" in fault_of(tmp_path, BY_CHUNKS, site)[1]


def test_flux_has_nodes_of_one_type(tmp_path):
    site = ONE_QUEUE.replace("{type: openpbs}", "{type: flux}").replace("{name: ssh}", "{name: flux}")
    message = fault_of(tmp_path, ROLES, site.replace("constraint: thin, ", ""))[1]
    assert (
        "flux cannot give one job nodes of several types, `gpu` and `cpu`: its requests have one kind of node"
        in message
    )


def test_grid_engine_has_no_roles_at_all(tmp_path):
    site = ONE_QUEUE.replace("{type: openpbs}", "{type: gridengine}").replace("constraint: thin, ", "")
    assert "gridengine cannot run several roles in one job" in fault_of(tmp_path, ROLES, site)[1]
