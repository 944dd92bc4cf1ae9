"""Bad input: one clear error with its place and the way out, exit code 2, nothing submitted, no traceback."""

from __future__ import annotations

import json
import os
import re

import pytest

GOOD = "name: run\nsite: workstation\ncommand: ['true']\n"
DEEP = "[" * 10_000
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}]\n"
    for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)

FAULTS = {
    "an unknown key": (GOOD + "resorces: {nodes: 1}\n", 4, "unknown key `resorces`", "`resources`"),
    "an unknown key below":
        (GOOD + "resources:\n  nodess: 1\n", 5, "unknown key `resources.nodess`|unknown key `nodess`", "`nodes`"),
    "an unknown key of a framework": (GOOD + "torch:\n  agentt: true\n", 5, "unknown key", "`agent`"),
    "an unknown key of a data set": (GOOD + "data:\n  a:\n    sorce: /x\n", 6, "unknown key", "`source`"),
    "an unknown key of a secret": (GOOD + "secrets: {A: {evn: B}}\n", 4, "unknown key", "`env`"),
    "a wrong type": (GOOD + "resources: {nodes: two}\n", 4, "`resources.nodes` takes a whole number", ""),
    "a missing key": ("name: run\nsite: workstation\n", None, "`command`", ""),
    "no nodes": (GOOD + "resources: {nodes: 0}\n", 4, "the minimum is 1", ""),
    "nodes: yes": (GOOD + "resources: {nodes: yes}\n", 4, "`resources.nodes` takes a whole number", ""),
    "no unit": (GOOD + "resources: {walltime: 30}\n", 4, "has no unit", "`30m` for minutes"),
    "an unknown site":
        (GOOD.replace("workstation", "workstatoin"), 2, "there is no site `workstatoin`", "the nearest is `workstation`"),
    "a name of two lines":
        (GOOD.replace("name: run", 'name: "a\\nb"'), 1, "one line of at most 128 characters", ""),
    "deep brackets": (DEEP, 1, "", ""),
    "an alias bomb": (BOMB, None, "alias", ""),
    "an empty file": ("", None, "the file is empty", "`dlrun keys` lists the keys"),
    "an unknown framework": (GOOD + "framework: troch\n", 4, "dlrun does not support the framework `troch`", "`torch`"),
    "an unknown launcher": (GOOD + "launcher: srnu\n", 4, "dlrun does not support the launcher `srnu`", "`srun`"),
    "a script that does not exist":
        (GOOD.replace("['true']", "[python, trian.py]"), 3, "script `trian.py` does not exist", "train.py"),
    "data that does not exist": (GOOD + "data: {a: missing/data}\n", 4, "`missing/data` does not exist", ""),
    "a venv that does not exist":
        (GOOD + "environment: {venv: missing}\n", 4, "no virtual environment at `missing`", "bin/activate"),
    "too many nodes for one machine": (GOOD + "resources: {nodes: 2}\n", 4, "is a single machine", "use `nodes: 1`"),
    "a secret in plain":
        (GOOD + "environment: {variables: {HF_TOKEN: canary}}\n", 4, "looks like a secret", "`secrets:"),
}  # fmt: skip


def check(dlrun, ran, name: str, line: int | None, message: str, way_out: str) -> None:
    assert ran.stdout == ""
    assert re.search(message, ran.stderr), ran.stderr
    assert ran.stderr.startswith("error")
    if line is not None:
        assert re.search(rf"--> \S*{name}:{line}:\d+$", ran.stderr, re.MULTILINE), ran.stderr
    assert way_out in ran.stderr
    assert "canary" not in ran.stderr
    assert not dlrun.jobs.exists() or not list(dlrun.jobs.glob("[!.]*"))
    assert not dlrun.alive()


@pytest.mark.parametrize("fault", FAULTS)
def test_fault(dlrun, fault):
    text, line, message, way_out = FAULTS[fault]
    (dlrun.place / "train.py").touch()
    (dlrun.place / "spec.yaml").write_text(text)
    ran = dlrun("submit", "spec.yaml", code=2)
    check(dlrun, ran, "spec.yaml", line, message, way_out)


def test_a_binary_file(dlrun):
    (dlrun.place / "spec.yaml").write_bytes(bytes(range(256)) * 40)
    check(dlrun, dlrun("submit", "spec.yaml", code=2), "spec.yaml", None, "text|UTF-8|binary", "")


def test_a_directory(dlrun):
    (dlrun.place / "spec.yaml").mkdir()
    check(dlrun, dlrun("submit", "spec.yaml", code=2), "spec.yaml", None, "it is a directory", "name a file")


def test_a_file_that_is_not_there(dlrun):
    (dlrun.place / "spec.yaml").write_text(GOOD)
    check(
        dlrun,
        dlrun("submit", "spce.yaml", code=2),
        "",
        None,
        "there is no such file",
        "the nearest is `spec.yaml`",
    )


def test_a_file_that_may_not_be_read(dlrun):
    (dlrun.place / "spec.yaml").write_text(GOOD)
    (dlrun.place / "spec.yaml").chmod(0)
    if os.access(dlrun.place / "spec.yaml", os.R_OK):
        pytest.skip("this user may read every file")
    check(dlrun, dlrun("submit", "spec.yaml", code=2), "", None, "is not readable", "")


@pytest.mark.parametrize(
    ("scheduler", "client"), [("slurm", "sbatch"), ("openpbs", "qsub"), ("torque", "qsub")]
)
def test_a_client_that_is_not_installed(dlrun, scheduler, client):
    spec = GOOD.replace("workstation", f"generic-{scheduler}") + "resources: {cpus_per_rank: 1}\n"
    (dlrun.place / "spec.yaml").write_text(spec)
    ran = dlrun("submit", "spec.yaml", code=2, env={"PATH": "/nowhere"})
    check(dlrun, ran, "", None, f"`{client}` is not installed here", "on the cluster's login node")
    assert "#" in dlrun("submit", "spec.yaml", "--dry-run", env={"PATH": "/nowhere"}).stdout


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("resources.nodess=2", "nodess"),
        ("resources.nodes=two", "whole number"),
        ("resources.nodes", "="),
        ("=2", ""),
        ("resources.walltime=30", "has no unit"),
    ],
)
def test_a_faulty_flag(dlrun, flag, message):
    ran = dlrun("submit", dlrun.spec(GOOD), "--set", flag, code=2)
    check(dlrun, ran, "", None, message, "")
    assert "--set" in ran.stderr


def test_faults_of_spec_flag_and_site_come_together(dlrun):
    (dlrun.place / "site.yaml").write_text("name: x\nscheduler: {typ: local}\nlauncher: {name: local}\n")
    (dlrun.place / "spec.yaml").write_text(GOOD.replace("workstation", "./site.yaml") + "nmae: b\n")
    ran = dlrun("submit", "spec.yaml", "--set", "resources.nodes=0", code=2)
    for word in ("`nmae`", "`typ` in `scheduler`", "the minimum is 1"):
        assert word in ran.stderr, ran.stderr


@pytest.mark.parametrize(
    ("line", "path", "value"),
    [
        ("resources: {walltime: 10:00:00}", "request.walltime", 36000),
        ("resources: {walltime: 01:00:00}", "request.walltime", 3600),
        ("resources: {account: '0123'}", "request.account", "0123"),
        ("resources: {account: 0123}", "request.account", "0123"),
        ("resources: {partition: no}", "request.partition", "no"),
    ],
)
def test_not_errors(dlrun, line, path, value):
    (dlrun.place / "spec.yaml").write_text(GOOD + line + "\n")
    plan = json.loads(dlrun("plan", "spec.yaml", "--json", "--site", "generic-slurm").stdout)
    for part in path.split("."):
        plan = plan[part]
    assert plan == value


def test_texts_arrive_as_typed(dlrun):
    spec = "command: [echo, '{{ lr }}', '{{ version }}', no, 0123]\nsweep: {lr: [1e-4], version: [3.10]}\n"
    ran = dlrun("submit", dlrun.spec(spec), "--wait")
    assert "[0/rank 0] 1e-4 3.10 no 0123" in ran.stdout.splitlines()
