"""A spec that runs in the allocation of this shell: what is open is what was granted, and what is missing is an error."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dlrun.errors import Invalid
from dlrun.jobs.running.allocation import Held, fitted, partition_setting
from dlrun.jobs.running.command import spec_text
from dlrun.jobs.running.shortage import check_room
from dlrun.jobs.submission.prepare import prepare
from dlrun.schedulers.protocol import Granted
from dlrun.system.inputs.profiles import Machine
from dlrun.system.inputs.spec import load_spec
from tests.making import scripts_of

SITE = """\
name: somewhere
scheduler: {type: slurm}
launcher: {name: srun}
partitions: {work: {default: true, node_type: cpu}, gpu: {node_type: gpu}}
node_types:
  cpu: {topology: {packages: 2, cores: 8}}
  gpu: {topology: {packages: 2, cores: 8, gpus: {count: 4, numa: [0, 0, 1, 1]}}}
"""
NOW = time.mktime(time.strptime("2026-11-25T20:00:00", "%Y-%m-%dT%H:%M:%S"))


@pytest.fixture
def planned(tmp_path, monkeypatch):
    """(plan, inputs) of a command in an allocation, with arguments of `--set`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site.yaml").write_text(SITE)

    def plan(granted: Granted, *sets: str, words: tuple[str, ...] = ("./train",)):
        held = Held(job_id="12", scheduler="slurm", granted=granted)

        def read(*sets: str):
            machine = Machine(environment={}, home=tmp_path, root=tmp_path, host="n1")
            return load_spec(
                tmp_path / "x.yaml", sets=sets, site="./site.yaml", here=machine, text=spec_text(words)
            )

        inputs = read(*sets)
        inputs = fitted(read(*sets, *partition_setting(inputs, held)), held, NOW)
        found = prepare(inputs.path, inputs=inputs).plan
        check_room(found, inputs, held)
        return found

    return plan


def granted(**more) -> Granted:
    return Granted(**{"hosts": ("n1", "n2", "n3"), "cpus": 16, "gpus": 0, **more})


def test_all_nodes_with_the_partitions_hardware_and_the_time_that_is_left(planned):
    plan = planned(granted(partition="gpu", gpus=4, ends="2026-11-25T20:30:00"))
    assert (plan.scheduler, plan.directives) == ("slurm-allocation", ())
    assert (plan.request.nodes, plan.request.ranks_per_node, plan.request.gpus_per_node) == (3, 4, 4)
    assert (plan.request.walltime, plan.request.partition) == (1800, "gpu")
    assert plan.binding.mode == "plan"
    assert plan.verify == "warn"
    text = scripts_of(plan, "/job")["job.sh"]
    assert 'dlrun_start scontrol show hostnames "$SLURM_JOB_NODELIST"' in text
    assert "--nodelist" not in text


@pytest.mark.slow
def test_some_of_the_nodes(planned):
    for setting, hosts in (("resources.nodes=2", "n1 n2"), ("resources.hosts=['n[2-3]']", "n2 n3")):
        text = scripts_of(planned(granted(), setting), "/job")["job.sh"]
        assert f"dlrun_start printf '%s\\n' {hosts} " in text
        assert f"DLRUN_CHOSEN_HOSTS={hosts.replace(' ', ',')} " in text
        assert '--nodelist="$DLRUN_CHOSEN_HOSTS"' in text
    with pytest.raises(Invalid, match="host `n9` is not in allocation 12"):
        planned(granted(), "resources.hosts=[n9]")


def test_ranks_are_the_tasks_that_were_asked_for_and_share_a_part_of_a_node(planned):
    plan = planned(granted(tasks=3, cpus=6))
    assert (plan.request.ranks_per_node, plan.binding.mode) == (3, "job")
    assert planned(granted(tasks=3), "resources.ranks_per_node=2").request.ranks_per_node == 2


@pytest.mark.parametrize(
    ("has", "sets", "message", "help"),
    [
        ({"hosts": ("n1",)}, ["nodes=2"], "has 1 node, but the plan needs 2", "--nodes=2"),
        ({"cpus": 1}, [], "has 1 CPU on each node, but the plan needs 2 (2 ranks)", "--ntasks-per-node=2"),
        (
            {"cpus": 4},
            ["cpus_per_rank=8"],
            "has 4 CPUs on each node, but the plan needs 16",
            "--cpus-per-task=8",
        ),
        ({"partition": "gpu"}, [], "has 0 GPUs on each node, but the plan needs 4", "--gpus-per-node=4"),
        ({"partition": "gpu", "gpus": 1}, ["gpus_per_node=2"], "has 1 GPU on each", "--gpus-per-node=2"),
    ],
)
def test_what_is_missing_names_the_option_that_gets_it(planned, has, sets, message, help):
    with pytest.raises(Invalid) as error:
        planned(granted(**has), *(f"resources.{one}" for one in sets))
    assert message in error.value.message
    assert help in error.value.help
    assert error.value.help.startswith("get one with `salloc --nodes=")


def test_the_words_of_a_command_arrive_as_they_are(planned):
    words = (
        "./a",
        "a b",
        "--lr",
        "0.10",
        "1e3",
        "yes",
        "null",
        "~",
        "#x",
        "a: b",
        "[1]",
        "",
        "two\nlines",
        "{x}",
        "{{ nodes }}",
        "'",
        '"',
        "é",
    )
    plan = planned(granted(), words=words)
    assert plan.name == "a"
    assert [word.literal for word in plan.roles[0].argv] == list(words)
    # A program by its name may be a launcher, and is read as a line of bash.
    plan = planned(granted(), words=("echo", "{{dataset}}", "a b"))
    assert plan.roles[0].argv[-1].literal.endswith("echo '{{dataset}}' 'a b'")


def test_a_launcher_in_the_command_sets_ranks_and_framework(planned):
    Path("train.py").touch()
    plan = planned(granted(), words=("torchrun", "--nnodes=9", "--nproc-per-node=4", "train.py"))
    assert (plan.framework, plan.request.nodes, plan.request.ranks_per_node) == ("torch", 3, 4)
    plan = planned(granted(), words=("mpirun", "-np", "4", "./a.out"))
    assert plan.framework == "mpi"
