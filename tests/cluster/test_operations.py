"""What a user does with jobs, on a real Flux and a real Grid Engine: each operation works there, or states why it cannot."""

from __future__ import annotations

import json
import os
import re
import shlex

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, why_no_flux, why_no_gridengine, why_not
from tests.cluster.hosts import await_true
from tests.cluster.jobs import PYTHON, User, bash
from tests.cluster.staged import files, names

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]

SITES = {
    "flux": {
        "scheduler": {"type": "flux", "exclusive": True, "gpus": "none"},
        "launcher": {"name": "flux"},
        "recognise": {"cluster_name": "n"},
    },
    "gridengine": {
        "scheduler": {
            "type": "gridengine",
            "parallel_environment": "mpi-{slots}",
            "complexes": {"gpu": "gpu", "memory": "h_vmem", "exclusive": "exclusive"},
        },
        "launcher": {"name": "qrsh"},
        "recognise": {"cluster_name": "login"},
    },
}
COMMON = {
    "partitions": {"work": {"default": True, "node_type": "n"}, "short": {"node_type": "n"}},
    "node_types": {"n": {"topology": {"packages": 2, "cores": 4}}},
    "fabric": {"name": "ethernet", "interfaces": ["eth0"]},
    "storage": {"node_local": {"path": "/tmp", "size": "10GB"}},
}
MISSING = {"flux": why_no_flux(), "gridengine": why_no_gridengine()}
ALLOCATE = {
    "flux": "flux alloc -N2 -x -t5m",
    "gridengine": "qrsh -now no -pe mpi-8 16 -l exclusive=true -V -cwd",
}


@pytest.fixture(scope="module", params=list(SITES))
def kind(request):
    if MISSING[request.param]:
        pytest.skip(MISSING[request.param])
    return request.param


@pytest.fixture(scope="module")
def cluster(kind):
    spec = ClusterSpec(
        scheduler=kind,
        node_types=(NodeType(count=3),),
        partitions=(
            Partition(name="work", default=True, max_time="1-00:00:00"),
            Partition(name="short", max_time="00:10:00"),
        ),
        sshd=True,
    )
    with Cluster(spec, name=f"do-{kind}-{os.getpid()}") as running:
        yield running


@pytest.fixture(scope="module")
def alice(cluster, kind):
    return User(cluster, {"name": f"test-{kind}", **SITES[kind], **COMMON})


def resources(**more):
    return {"cpus_per_rank": 1, "ranks_per_node": 1, "walltime": "5m", "partition": "work", **more}


def test_check_asks_the_scheduler_and_submits_nothing(alice, kind):
    path = alice.write(
        "check.yaml",
        {"name": "check", "framework": "torch", "command": bash("true"), "resources": resources()},
    )
    assert "would accept the job" in alice.dlrun("submit", str(path), "--check").stdout
    if kind == "flux":
        shown = alice.dlrun("submit", str(path), "--check", "--set", "resources.account=ai").stdout
        assert "bank `ai` is checked only when the job is submitted" in shown
    for given in ("resources.nodes=9", "resources.walltime=2d"):
        done = alice.dlrun("submit", str(path), "--check", "--set", given, code=None)
        assert done.returncode == 1, (given, done.stdout, done.stderr)
        assert "help:" in done.stderr
    assert "no jobs" in alice.dlrun("list", code=None).stderr + alice.dlrun("list", code=None).stdout


def test_logs_follow_a_job_to_its_end(alice):
    job = alice.submit(
        {
            "command": bash("for i in 1 2 3; do echo line $i of $RANK; sleep 1; done"),
            "resources": resources(nodes=2),
        }
    )
    said = alice.dlrun("logs", "-f", job, "--rank", "all").stdout
    assert "[rank 1] line 3 of 1" in said, alice.log(job)
    assert alice.dlrun("logs", job, "--rank", "1").stdout.count("line") == 3


def test_hold_release_and_cancel(alice):
    other = alice.submit({"command": bash("sleep 20"), "resources": resources(nodes=3, cpus_per_rank=8)})
    alice.running(other)
    job = alice.submit({"command": bash("true"), "resources": resources(nodes=3, cpus_per_rank=8)})
    alice.dlrun("hold", job)
    await_true(lambda: alice.state(job)[0]["state"] == "held", 60, "the job to be held")
    alice.dlrun("release", job)
    assert alice.state(job)[0]["state"] == "pending"
    alice.dlrun("cancel", job, other)
    assert {alice.ended(one)[0]["state"] for one in (job, other)} == {"cancelled"}


def test_resubmit_of_a_job_and_of_one_point(alice):
    good = alice.directory / "good"
    spec = {
        "command": bash(f"echo loss 0.$0; test $0 != 2 -o -e {good}"),
        "resources": resources(),
        "sweep": {"x": [1, 2, 3]},
    }
    spec["command"] = [*spec["command"], "{{ x }}"]
    spec["metrics"] = {"loss": "loss ([0-9.]+)"}
    job = alice.submit(spec)
    assert [run["state"] for run in alice.ended(job)] == ["completed", "failed", "completed"]
    good.write_text("")
    again = json.loads(alice.dlrun("resubmit", f"{job}:1", "--json").stdout)["job"]["job_id"]
    assert alice.ended(again)[0]["state"] == "completed"
    shown = alice.dlrun("results", job, code=None)
    assert "0.1" in shown.stdout, shown
    alice.dlrun("cancel", job, code=None)


def test_points_are_cancelled_one_by_one(alice):
    job = alice.submit({"command": bash("sleep 60"), "resources": resources(), "sweep": {"x": [1, 2, 3]}})
    await_true(lambda: "running" in {run["state"] for run in alice.state(job)}, 60, "a point to run")
    alice.dlrun("cancel", f"{job}:1")
    await_true(lambda: alice.state(job)[1]["state"] == "cancelled", 60, "the point to end")
    assert alice.state(job)[0]["state"] in ("pending", "running")
    alice.dlrun("cancel", job)
    assert {run["state"] for run in alice.ended(job)} == {"cancelled"}


def test_a_chain_goes_on_from_its_checkpoint(alice):
    steps = "import pathlib, sys\np = pathlib.Path('steps.txt')\nif p.exists(): sys.exit(0)\np.touch(); sys.exit(3)"
    first = alice.submit({"command": [str(PYTHON / "python"), "-c", steps], "resources": resources()})
    second = alice.submit(
        {
            "command": [str(PYTHON / "python"), "-c", steps],
            "resources": resources(),
            "after": [{"job": first, "when": "any"}],
        }
    )
    assert alice.ended(second)[0]["state"] == "completed"
    assert alice.state(first)[0]["exit_code"] == 3


def test_a_scaling_study(alice):
    train = "for i in 1 2 3; do echo epoch $i $((WORLD_SIZE * 100)) images/s; done"
    alice.write(
        "net.yaml", {"name": "net", "framework": "torch", "command": bash(train), "resources": resources()}
    )
    alice.dlrun("scale", "net.yaml", "--nodes", "1,2", "--out", "study", timeout=300)
    data = json.loads(alice.dlrun("scale", "show", "study", "--json").stdout)["scale"]
    assert [(row["nodes"], row["middle"]) for row in data["rows"]] == [(1, 100), (2, 200)]


def test_data_reaches_the_nodes_of_a_job(alice):
    source = files(alice)
    job = alice.submit({"command": bash('ls "$DLRUN_DATA_SET" | wc -l'), "resources": resources(nodes=2),
                        "data": {"set": {"source": str(source), "strategy": "copy"}}})  # fmt: skip
    assert alice.ended(job)[0]["state"] == "completed", alice.log(job)
    assert [alice.log(job, f"rank-{rank}").split()[-1] for rank in range(2)] == ["40", "40"]


def test_a_job_of_its_own_warms_nodes(alice, cluster):
    source = files(alice)
    words = ("--name", "warmed", "--nodes", "3", "--wait", "--set", "resources.walltime=5m")
    alice.dlrun("stage-data", str(source), *words)
    assert [len(names(alice, node, "warmed", "data")) for node in cluster.spec.nodes] == [40] * 3


def inside(alice, kind, words):
    """Run dlrun inside an allocation of two nodes."""
    script = f"#!/bin/bash\ncd {alice.directory}\nPATH={PYTHON}:$PATH exec dlrun {words} >inside.out 2>inside.err\n"
    alice.write("inside.sh", script).chmod(0o755)
    line = f"{ALLOCATE[kind]} ./inside.sh"
    done = alice.cluster.on("login", ["script", "-qec", line, "/dev/null"], user="alice", cwd=str(alice.directory),
                            env={"DLRUN_SITE": str(alice.directory / "site.yaml")}, timeout=120)  # fmt: skip
    read = [(alice.directory / f"inside.{one}") for one in ("out", "err")]
    return [path.read_text() if path.exists() else "" for path in read], done.stdout


def test_inside_an_allocation_its_nodes_get_the_data(alice, kind, cluster):
    source = files(alice)
    (out, err), shown = inside(alice, kind, f"stage-data {source} --name granted")
    assert "/tmp/dlrun-alice/granted/data" in out, (out, err, shown)
    assert sum("granted" in names(alice, node) for node in cluster.spec.nodes) == 2


def test_ranks_are_where_the_plan_puts_them(alice):
    spec = {"name": "verified", "command": bash("true"), "placement": {"memory": "none"},
            "resources": resources(nodes=2, ranks_per_node=2, cpus_per_rank=4, exclusive=True)}  # fmt: skip
    alice.write("verified.yaml", spec)
    found = json.loads(alice.dlrun("verify", "verified.yaml", "--json").stdout)["verify"]["ranks"]
    assert [one["report"]["mask"] for one in found] == [[0, 1, 2, 3], [4, 5, 6, 7]] * 2
    assert [one["differences"] for one in found] == [[]] * 4


def test_inside_an_allocation_ranks_are_verified(alice, kind):
    spec = {"name": "verified", "command": bash("true"), "placement": {"memory": "none"},
            "resources": resources(nodes=2, ranks_per_node=2, cpus_per_rank=4, exclusive=True)}  # fmt: skip
    alice.write("verified.yaml", spec)
    (out, err), shown = inside(alice, kind, "verify verified.yaml --here --json")
    found = json.loads(out or "{}").get("verify", {}).get("ranks")
    assert found, (out, err, shown)
    assert [one["report"]["mask"] for one in found] == [[0, 1, 2, 3], [4, 5, 6, 7]] * 2


@pytest.mark.parametrize(
    ("script", "cause"), [("kill -9 $$", "killed"), ("python3 -c 'raise ValueError(7)'", "exception")]
)
def test_why_names_the_cause(alice, script, cause):
    job = alice.submit(
        {"command": bash(f"(($RANK)) || exec sleep 600; {script}"), "resources": resources(nodes=2)}
    )
    alice.ended(job)
    assert alice.why(job)["cause"] == cause


def test_what_a_job_used(alice, kind):
    """Grid Engine accounts for the ranks as well, for qrsh starts them; Flux accounts for nothing."""
    busy = "import time\nend = time.time() + 25\nwhile time.time() < end: pass"
    job = alice.submit({"command": [str(PYTHON / "python"), "-c", busy], "resources": resources(nodes=2)})
    assert alice.ended(job)[0]["state"] == "completed", alice.log(job)
    assert "rank-1" in alice.dlrun("usage", job).stdout

    def used():
        (use,) = json.loads(alice.dlrun("usage", job, "--json").stdout)["usage"]
        return use

    cpu = sum(rank["cpu"] for rank in used()["use"]["ranks"])
    assert cpu > 5
    if kind == "flux":
        assert used()["accounted"] is None
        return
    await_true(
        lambda: (found := used()["accounted"]) is not None and found["cpu"] > cpu / 2, 60, "all of qacct"
    )
    found = used()["accounted"]
    assert found["source"] == "qacct"
    assert cpu == pytest.approx(found["cpu"], rel=0.1, abs=4)


def test_a_bad_node_is_left_out(alice, kind):
    check = "[[ $(uname -n) != n2* ]] || { echo the fan is dead; false; }"
    site = {"name": f"test-{kind}", **SITES[kind], **COMMON, "node_checks": [check]}
    alice.write("checked.yaml", site)
    spec = {"command": bash("echo here"), "resources": resources(nodes=2, spare_nodes=1, cpus_per_rank=8)}
    job = alice.submit(spec, "--site", "./checked.yaml")
    (run,) = alice.ended(job)
    log = alice.log(job)
    assert run["state"] == "completed", log
    assert "the fan is dead" in log
    assert sorted((alice.job_dir(job) / "hosts").read_text().split()) == ["n1", "n3"]


def test_a_job_comes_and_goes_by_ssh(alice, kind, cluster):
    """From another host than the login node, which has no client."""
    line = """echo "export PATH=$PATH"; env | grep -E "^(FLUX_URI|SGE_)" | sed -E 's/([^=]*)=(.*)/export \\1=${\\1:-\\2}/'"""
    settings = cluster.on("login", line).stdout
    cluster.on(
        "login",
        "cat - > .profile.new; cp .profile.new .bash_profile; cp .profile.new .bashrc",
        input=settings,
        check=True,
    )
    path = alice.write(
        "far.yaml",
        {
            "name": "far",
            "framework": "torch",
            "command": bash("echo far $RANK"),
            "resources": resources(nodes=2),
        },
    )
    done = alice.dlrun("submit", str(path), "--host", "login", "--wait", timeout=240)
    assert "far 0" in done.stdout
    assert "would accept" in alice.dlrun("submit", str(path), "--host", "login", "--check").stdout
    refused = alice.dlrun(
        "submit", str(path), "--host", "login", "--check", "--set", "resources.nodes=9", code=1
    )
    assert "rejects the job" in refused.stderr


def run(cluster, line, code=0):
    done = cluster.on("login", f"cd ~ && PATH={PYTHON}:$PATH && {line}", user="alice", timeout=180)
    assert done.returncode == code, f"{line}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def test_a_detected_profile_passes_its_check(cluster, kind):
    said = run(cluster, "dlrun site detect --name crag --probe --output crag.yaml && cat crag.yaml").stdout
    assert f"type: {kind}" in said
    assert "and 1 compute node." in said, said
    assert re.search(r"short:\n    node_type: n\n    max_walltime: .00:10:00", said), said
    assert re.search(r"packages: 2\n      cores: 4", said), said
    if kind == "gridengine":
        assert (
            'parallel_environment: "mpi-{slots}"' in said or "parallel_environment: 'mpi-{slots}'" in said
        ), said
        assert "memory: h_vmem" in said
        assert "name: qrsh" in said
    run(cluster, "dlrun site check crag.yaml --strict")
    assert "dlrun-probe" not in run(cluster, "ls -a").stdout
    run(cluster, "sed 's/00:10:00/08:00:00/; s/^  work:/  long:/' crag.yaml >wrong.yaml")
    wrong = run(cluster, "dlrun site check wrong.yaml").stderr
    assert "has no partition `long`" in wrong
    assert "`max_walltime` is 8h, and the scheduler allows 10m" in wrong


def test_a_new_profile_submits_a_job(cluster, kind):
    words = f"dlrun site new {kind}-new --scheduler {kind} --partition work --cores 4 --packages 2 --output new.yaml"
    if kind == "gridengine":
        words += " --set scheduler.parallel_environment='mpi-{slots}'"
    run(cluster, words)
    assert f"type: {kind}" in run(cluster, "cat new.yaml").stdout
    run(cluster, "dlrun site check new.yaml")
    spec = {
        "name": "new",
        "framework": "torch",
        "command": bash("echo new $RANK"),
        "resources": resources(nodes=2),
    }
    run(cluster, f"echo {shlex.quote(json.dumps(spec))} >new-spec.yaml")
    assert "new 0" in run(cluster, "dlrun submit new-spec.yaml --site ./new.yaml --wait").stdout
