"""Roles that share nodes: the part of each, never two of one core or GPU, and what is refused, where."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from dlrun.resources import directory as resource
from tests.making import LOCAL, SLURM, fault_of, plan_of, scripts_of
from tests.unit.plan.test_role_jobs import SHARED, SITE, TWO, jobs

BESIDE = """\
resources: {walltime: 1h}
roles:
  judge: {command: [judge], beside: train, gpus_per_node: 1}
  store: {command: [store], beside: train, gpus_per_node: 0, cpus_per_rank: 2, ready: {port: true}}
  train: {command: [train], nodes: 2, needs: [judge, store], gpus_per_node: 3}
"""


def parts(plan):
    """Role -> the hardware threads and the GPUs of its ranks."""
    placed = {name: role.plan.binding.placement for name, role in jobs(plan).items()}
    return {
        name: (
            [cpu for rank in one.ranks for cpu in rank.mask],
            [gpu for rank in one.ranks for gpu in rank.gpus],
        )
        for name, one in placed.items()
    }


def test_roles_beside_one_another_divide_the_node(tmp_path):
    plan = plan_of(tmp_path, BESIDE, SITE)
    assert (plan.request.nodes, plan.request.gpus_per_node) == (2, 4)
    found = parts(plan)
    cores = [cpu for cpus, _ in found.values() for cpu in cpus]
    assert len(cores) == len(set(cores)), "no core is in two parts"
    assert {name: gpus for name, (_, gpus) in found.items()} == {
        "judge": [3],
        "store": [],
        "train": [0, 1, 2],
    }
    assert {name: len(cpus) for name, (cpus, _) in found.items()} == {"judge": 4, "store": 2, "train": 9}
    assert min(found["judge"][0]) >= 8, "next to its GPU"
    assert len(jobs(plan)["train"].plan.roles[0].argv) == 1
    assert jobs(plan)["train"].plan.request.ranks == 6


LIMITED = BESIDE.replace("gpus_per_node: 3", "gpus_per_node: 3, memory_per_node: 100GiB")
ALL_LIMITED = LIMITED.replace("gpus_per_node: 1", "gpus_per_node: 1, memory_per_node: 40GiB").replace(
    "gpus_per_node: 0", "gpus_per_node: 0, memory_per_node: 20GiB"
)


def test_each_role_gets_its_memory_and_the_job_their_sum(tmp_path):
    plan = plan_of(tmp_path, ALL_LIMITED, SITE)
    assert "#SBATCH --mem=163840M" in scripts_of(plan)["job.sh"]
    for name, size in {"judge": 40, "store": 20, "train": 100}.items():
        (role,) = jobs(plan)[name].plan.roles
        assert f"--mem={size * 1024}M" in [str(word) for word in role.launch]
    assert not [line for line in plan.warnings if "memory" in line]


def test_without_a_limit_for_each_role_the_job_requests_what_it_did(tmp_path):
    plan = plan_of(tmp_path, LIMITED, SITE)
    assert plan.request.memory_per_node == plan_of(tmp_path, BESIDE, SITE).request.memory_per_node
    launches = {name: " ".join(map(str, one.plan.roles[0].launch)) for name, one in jobs(plan).items()}
    assert {name for name, words in launches.items() if "--mem=102400M" in words} == {"train"}
    assert {name for name, words in launches.items() if "--mem=" in words} == {"train"}


@pytest.mark.parametrize(
    ("spec", "key", "message"),
    [
        (ALL_LIMITED.replace("100GiB", "150GiB"), "150GiB", "210GiB of memory is requested on each node"),
        (
            ALL_LIMITED.replace("walltime: 1h", "walltime: 1h, memory_per_node: 90GiB"),
            "100GiB",
            "may use 160GiB of its memory, but the job requests 90GiB",
        ),
    ],
)  # fmt: skip
def test_roles_that_may_use_more_than_there_is(tmp_path, spec, key, message):
    _, found, _, at = fault_of(tmp_path, spec, SITE)
    assert message in found
    assert at.startswith(key)


def test_a_launcher_that_cannot_limit_memory_is_a_warning(tmp_path):
    plan = plan_of(tmp_path, ALL_LIMITED + "launcher: ssh\n", SITE)
    assert sum("launcher `ssh` does not limit the memory" in line for line in plan.warnings) == 3
    assert plan.request.memory_per_node == 160 << 30


def test_a_server_with_all_gpus_leaves_as_much_of_each_package_to_its_clients(tmp_path):
    """Sixteen cores for three: six for the server, with four GPUs; a client with cores of both packages is a warning."""
    roles = """\
roles:
  model: {command: [serve, "{{ role.model.port }}"], gpus_per_node: 4}
  one: {command: [ask, "{{ role.model.address }}"], beside: model, gpus_per_node: 0, needs: [model]}
  two: {command: [ask, "{{ role.model.address }}"], beside: model, gpus_per_node: 0, needs: [model]}
"""
    plan = plan_of(tmp_path, roles, SITE.replace("min_nodes: 2, ", ""))
    assert not plan.warnings
    found = {
        name: [sum(cpu < 8 for cpu in cpus), sum(cpu >= 8 for cpu in cpus)]
        for name, (cpus, _) in parts(plan).items()
    }
    assert found == {"model": [3, 3], "one": [5, 0], "two": [0, 5]}


def test_ranks_that_only_the_sum_of_the_roles_has_are_no_warning(tmp_path):
    """A rank with four GPUs of torch, on cores of both packages: no role has such a one."""
    roles = """\
roles:
  model: {command: [serve], gpus_per_node: 2, ready: {port: true}}
  train: {framework: torch, command: [t], beside: model, needs: [model], gpus_per_node: 2, ranks_per_node: 2}
"""
    plan = plan_of(tmp_path, roles, SITE.replace("min_nodes: 2, ", ""))
    assert [line for line in plan.warnings if not line.startswith(("model: ", "train: "))] == []


def test_each_role_is_shown_its_gpus_by_its_page(tmp_path):
    made = scripts_of(plan_of(tmp_path, BESIDE, SITE))
    lines = {
        name: [
            line.partition(" #")[0]
            for line in made[f"roles/{name}/rank.sh"].splitlines()
            if "show_part" in line
        ]
        for name in ("judge", "store", "train")
    }
    order = "CUDA_DEVICE_ORDER PCI_BUS_ID"
    assert lines == {
        "judge": [f"dlrun_show_part CUDA_VISIBLE_DEVICES 3 {order}"],
        "store": [f"dlrun_show_part CUDA_VISIBLE_DEVICES '' {order}"],
        "train": [f"dlrun_show_part CUDA_VISIBLE_DEVICES 0,1,2 {order}"],
    }
    assert [role.get("beside") for role in json.loads(made["roles.json"])["roles"]] == [
        "train",
        "train",
        None,
    ]


SHOW = 'source "$1"; dlrun_fail() { exit "$1"; }; DLRUN_RANK=4; {}; env | grep -E "^CUDA_" | sort'


@pytest.mark.parametrize(
    ("given", "indexes", "shown"),
    [
        (None, "1,2", "1,2"),
        ("GPU-a,GPU-b,GPU-c", "1,2", "GPU-b,GPU-c"),
        ("0,1", "''", ""),
        (None, "''", ""),
        ("3", "1", None),
    ],
)
def test_a_role_is_shown_its_part_of_the_gpus_of_the_job(given, indexes, shown):
    call = f"dlrun_show_part CUDA_VISIBLE_DEVICES {indexes} CUDA_DEVICE_ORDER PCI_BUS_ID"
    variables = {"PATH": os.environ["PATH"], **({} if given is None else {"CUDA_VISIBLE_DEVICES": given})}
    ran = subprocess.run(
        # twice: a rank that an agent starts inherits what the agent is shown
        ["bash", "-uc", SHOW.replace("{}", f"{call}; {call}"), "bash", resource("templates") / "lib/place.sh"],
        env=variables, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if shown is None:
        assert ran.returncode == 2
        assert (
            "rank 4: GPU 1 of the plan is not among those of this job, CUDA_VISIBLE_DEVICES=3" in ran.stdout
        )
    else:
        assert ran.stdout == f"CUDA_DEVICE_ORDER=PCI_BUS_ID\nCUDA_VISIBLE_DEVICES={shown}\n"


def test_roles_share_whole_nodes_of_known_topology_only(tmp_path):
    code, message, help_, _ = fault_of(tmp_path, BESIDE, SHARED)
    assert (code, "may get a part only" in message, "`exclusive: true`" in help_) == ("DLR143", True, True)
    code, message, _, _ = fault_of(tmp_path, BESIDE, SLURM)
    assert (code, "of unknown topology" in message) == ("DLR142", True)


def test_on_a_single_machine_all_roles_share_it(tmp_path):
    own = LOCAL + "node_types: {n: {topology: {packages: 1, cores: 6, gpus: {count: 2, numa: [0, 0]}}}}\n"
    plan = plan_of(tmp_path, TWO.replace("    nodes: 2\n", ""), own)
    found = parts(plan)
    assert {name: gpus for name, (_, gpus) in found.items()} == {"judge": [0], "train": [1]}
    assert [len(cpus) for cpus, _ in found.values()] == [3, 3]
    assert not set(found["judge"][0]) & set(found["train"][0])
    assert [role.beside for role in jobs(plan).values()] == [None, "judge"]
    assert plan.role_jobs.start == ()


def test_on_a_machine_of_few_cores_roles_are_not_bound(tmp_path):
    own = LOCAL + "node_types: {n: {topology: {packages: 1, cores: 1}}}\n"
    plan = plan_of(tmp_path, TWO.replace("    nodes: 2\n", ""), own)
    assert [role.plan.binding.mode for role in jobs(plan).values()] == ["none", "none"]
    assert [role.plan.request.threads for role in jobs(plan).values()] == [1, 1]
    assert any("need at least 2 cores" in line for line in plan.warnings)


def test_a_program_alone_needs_no_launcher_of_mpi(tmp_path):
    own = LOCAL + "node_types: {n: {topology: {packages: 1, cores: 6}}}\n"
    text = "framework: mpi\n" + TWO.replace("    nodes: 2\n", "    ranks_per_node: 1\n")
    assert [role.plan.framework for role in jobs(plan_of(tmp_path, text, own)).values()] == ["mpi", "mpi"]
    assert fault_of(tmp_path, text.replace("ranks_per_node: 1", "ranks_per_node: 2"), own)[0] == "DLR028"


FAULTS = [
    ("DLR142", "b: {command: [b], beside: c}", "c}", "beside `c`, which is not", "the other roles"),
    ("DLR142", "b: {command: [b], beside: b}", "b}", "beside itself", "another role"),
    (
        "DLR142",
        "b: {command: [b], beside: a}, c: {command: [c], beside: b}",
        "b}",
        "no nodes of its own",
        "`beside: a`",
    ),
    ("DLR142", "b: {command: [b], nodes: 2, beside: a}", "a}", "has 2 nodes, and `a`", "at most `nodes: 1`"),
    ("DLR142", "b: {command: [b], gpus_per_node: 5, beside: a}", "5,", "for 5 GPUs of its 4", "0 for one"),
    (
        "DLR142",
        "b: {command: [b], gpus_per_node: 1, beside: a}, c: {command: [c], beside: a}",
        "a}",
        "3 GPUs of a node",
        "0 for one",
    ),
    (
        "DLR142",
        "b: {command: [b], gpus_per_node: 2, cpus_per_rank: 8, beside: a}",
        "8,",
        "need at least 18 cores",
        "fewer",
    ),
    (
        "DLR143",
        "b: {command: [b], beside: a, placement: {bind: job}}",
        "job}",
        "role `b` would take cores",
        "remove",
    ),
]


@pytest.mark.parametrize(("code", "more", "at", "message", "help_"), FAULTS, ids=[one[1] for one in FAULTS])
def test_what_cannot_share_a_node_is_said_once_and_at_its_place(tmp_path, code, more, at, message, help_):
    found = fault_of(tmp_path, f"roles: {{a: {{command: [a]}}, {more}}}", SITE)
    assert found[0] == code
    assert message in found[1]
    assert help_ in (found[2] or "")
    assert found[3].startswith(at)
