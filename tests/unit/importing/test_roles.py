"""Batch scripts with several launches beside one another -> the roles of a spec, or a draft that says what is to be checked."""

from __future__ import annotations

import pytest

from dlrun.importing import read_script
from tests.equivalence.cases import cases

TWO = ["#!/bin/bash", "#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=4 -t 1:00:00"]
BESIDE = ["#!/bin/bash", "#SBATCH -N 1 --exclusive --gpus-per-node=4 -c 8 -t 1:00:00",
          "srun -n1 --gpus=1 --exact python judge.py &", "srun -n3 --gpus=3 --exact python train.py &", "wait"]  # fmt: skip


def read(*lines, **facts):
    draft = read_script("\n".join([*lines, ""]), "job.sh", **facts)
    return draft.values, [entry.because for entry in draft.to_check]


@pytest.mark.parametrize(
    "case", [c for c in cases() if c[0].startswith(("roles-", "beside-"))], ids=lambda c: c[0]
)
def test_what_is_understood_becomes_roles_and_the_rest_is_to_be_checked(case):
    _, verdict, script = case
    spec, checks = read(*script.splitlines())
    assert ("roles" in spec) == (verdict == "equal")
    assert bool(checks) == (verdict == "check")


def test_a_server_and_what_waits_for_it():
    spec, _ = read(
        *TWO, "H=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)", "PORT=8000",
        "srun -N1 -n1 -w $H vllm serve m --port $PORT &", "until curl -sf http://$H:$PORT/health; do sleep 5; done",
        "srun -N1 -n1 python train.py --api http://$H:$PORT/v1",
    )  # fmt: skip
    server, train = spec["roles"]["vllm"], spec["roles"]["train"]
    assert server["command"][-1] == "{{ role.vllm.port }}"
    assert server["ready"] == {"http": "/health", "within": "1h"}
    assert train["command"][-1] == "http://{{ role.vllm.address }}/v1"
    assert train["needs"] == ["vllm"]
    assert "ends" not in train


def test_a_port_that_stands_elsewhere_too_stays_and_the_pause_with_it():
    spec, _ = read(
        *TWO, "H=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)", "srun -N1 -n1 -w $H python serve.py --port 8000 &",
        "sleep 60", "srun -N1 -n1 python train.py --api http://$H:8000 --also 8000",
    )  # fmt: skip
    assert spec["roles"]["serve"]["command"][-1] == "8000"
    assert "http://{{ role.serve.host }}:8000" in spec["roles"]["train"]["command"]
    assert "sleep 60" in spec["roles"]["train"]["environment"]["setup"]
    assert spec["roles"]["train"]["ends"] is True


def test_the_order_of_nodes_is_that_of_the_script():
    lines = [
        "n=($(scontrol show hostnames))",
        "srun -N1 -n1 -w ${n[1]} python b.py &",
        "srun -N1 -n1 -w ${n[0]} python a.py &",
        "wait",
    ]
    spec, checks = read(*TWO, *lines)
    assert (list(spec["roles"]), checks) == (["a", "b"], [])


def test_parts_of_one_node_only_where_the_site_has_them():
    assert "roles" not in read(*BESIDE)[0]
    assert (
        "roles"
        not in read(BESIDE[0], BESIDE[1].replace("--exclusive", ""), *BESIDE[2:], roles="exclusive")[0]
    )
    spec, checks = read(*BESIDE, roles="exclusive")
    assert checks == []
    assert {name: (role["gpus_per_node"], role.get("beside")) for name, role in spec["roles"].items()} == {
        "judge": (1, None), "train": (3, "judge")}  # fmt: skip


def test_a_site_whose_scheduler_has_no_roles_gets_none():
    lines = [*TWO, "srun -N1 -n1 python a.py &", "srun -N1 -n1 python b.py &", "wait"]
    assert "roles" in read(*lines)[0]
    spec, checks = read(*lines, roles="none")
    assert "roles" not in spec
    assert checks


@pytest.mark.parametrize(
    "line",
    [
        "python prepare.py", "rm -rf out", "D=$(mktemp -d)", "NOW=$(date +%s)", "R=$RANDOM", "echo 1 > conf",
        "cp -r a b", "eval x",
        "trap 'cp -r a b' EXIT", "f() { python x.py; }", "M='{{node.0}}'",
        "echo $SLURM_NTASKS_PER_NODE >&2; X=$SLURM_MEM_PER_NODE; export X",
    ],
)  # fmt: skip
def test_a_line_that_each_role_would_run_differently_keeps_the_script(line):
    spec, checks = read(*TWO, line, "srun -N1 -n1 python a.py &", "srun -N1 -n1 python b.py &", "wait")
    assert "roles" not in spec
    assert checks


@pytest.mark.parametrize(
    "end",
    ["", "wait -n", "wait $OTHER", "wait; srun -N1 -n1 python c.py", "wait; srun -N1 -n1 python c.py &"],
)
def test_an_end_that_is_not_understood_keeps_the_script(end):
    spec, checks = read(
        *TWO, "srun -N1 -n1 python a.py &", "srun -N1 -n1 python b.py &", *([end] if end else [])
    )
    assert "roles" not in spec
    assert checks


def test_roles_never_have_a_value_of_a_secret():
    spec, checks = read(*TWO, "export HF_TOKEN=hf_abcdefabcdefabcdefabcdefabcdefabcd", "srun -N1 -n1 python a.py &",
                        "srun -N1 -n1 python b.py &", "wait")  # fmt: skip
    assert "hf_abcdef" not in repr(spec)
    assert checks


def test_text_that_looks_like_a_node_is_text_in_any_other_script():
    spec, checks = read(*TWO, "export A='{{node.0}}'", "srun python a.py")
    assert ("A" in spec["environment"].get("variables", {}), checks) == (False, [])
    assert spec["environment"]["setup"] == ["export A='{{node.0}}'"]
