"""One set of rules for threads: a job sets what `tune-affinity --format env` prints, but for what binds threads one by one."""

from __future__ import annotations

import pytest

from dlrun import backends
from dlrun.affinity.settings import BindingContext, settings
from dlrun.frameworks.common import threads
from tests.making import plan_of

SITE = """\
name: here
scheduler: {type: slurm, exclusive: true}
launcher: {name: intelmpi}
partitions: {p: {default: true, node_type: n}}
node_types: {n: {topology: {packages: 2, cores: 12, smt: 2}}}
"""
SPEC = "framework: {name}\nresources: {{nodes: 2, ranks_per_node: 2}}\n"
OF_THREADS = ("OMP_", "KMP_", "GOMP_", "TF_NUM_")


def of_job(place, name):
    plan = plan_of(place, SPEC.format(name=name), SITE)
    trained = next(role for role in plan.roles if role.per_node == 2)
    found = {v.name: str(v.value) for v in (*plan.variables, *trained.variables)}
    return plan, {name: value for name, value in found.items() if name.startswith(OF_THREADS)}


@pytest.mark.parametrize("name", ["tensorflow", "keras", "mesh_tensorflow", "mxnet", "intelcaffe", "torch"])
def test_a_job_sets_what_the_rules_say(name, tmp_path):
    plan, job = of_job(tmp_path, name)
    preset = backends.framework(name).PRESETS[""]
    rank = plan.binding.placement.ranks[0]
    shown = {
        s.name: s.value
        for s in settings(plan.binding.placement, BindingContext(preset=preset))
        if s.rank in (0, None) and s.name.startswith(OF_THREADS)
    }
    binding = {rule.name for rule in threads.places(rank, preset) if rule.binds}
    left_out = set() if name == "intelcaffe" else binding
    assert job == {key: value for key, value in shown.items() if key not in left_out}


@pytest.mark.parametrize("name", ["tensorflow", "mxnet"])
def test_idle_threads_leave_the_cores_to_the_others(name, tmp_path):
    assert of_job(tmp_path, name)[1]["KMP_BLOCKTIME"] == "1"


def test_ranks_of_unequal_parts_have_each_their_own_number(tmp_path):
    spec = "framework: tensorflow\nresources: {nodes: 2, ranks_per_node: 5}\n"
    plan = plan_of(tmp_path, spec, SITE.replace("cores: 12, smt: 2", "cores: 13"))
    (role,) = plan.roles
    told = {v.name: str(v.value) for v in role.variables}["TF_NUM_INTRAOP_THREADS"]
    counts = [str(rank.threads) for rank in plan.binding.placement.ranks]
    assert told in (counts[0], f'$(set -- {" ".join(counts)}; shift "$DLRUN_LOCAL_RANK"; printf %s "$1")')


def test_cores_that_only_the_job_knows(tmp_path):
    site = "name: here\nscheduler: {type: slurm}\nlauncher: {name: srun}\n"
    plan = plan_of(tmp_path, "framework: tensorflow\nresources: {nodes: 2, ranks_per_node: 2}\n", site)
    told = {v.name: str(v.value) for v in plan.roles[0].variables}
    assert told["TF_NUM_INTRAOP_THREADS"] == "$DLRUN_THREADS"
