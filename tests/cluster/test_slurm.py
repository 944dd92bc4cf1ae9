"""dlrun on a real Slurm, as an ordinary user: submit to last log line, every end, every directive read back."""

from __future__ import annotations

import json
import os
import time

import pytest

from tests.cluster import Account, Cluster, ClusterSpec, NodeType, Partition, Qos, cgroups, why_not
from tests.cluster.hosts import await_true
from tests.cluster.jobs import PYTHON, User, bash
from tests.meeting import ALL_HERE

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(why_not()), reason=why_not())]

SITE = {
    "name": "test-slurm",
    "scheduler": {"type": "slurm", "version": "22.05", "memory": "none"},
    "launcher": {"name": "srun"},
    "partitions": {
        "debug": {"default": True, "node_type": "n"},
        "low": {"node_type": "n", "preemptable": True},
        "high": {"node_type": "n"},
        "gpu": {"node_type": "g"},
        "reserved": {"node_type": "n", "exclusive": True},
    },
    "node_types": {
        "n": {"topology": {"packages": 2, "cores": 4}, "memory": "4000MiB"},
        "g": {"topology": {"packages": 2, "cores": 4, "gpus": {"count": 2, "numa": [0, 1]}}},
    },
    "fabric": {"name": "ethernet", "interfaces": ["eth0"]},
}


@pytest.fixture(scope="module")
def cluster():
    spec = ClusterSpec(
        node_types=(
            NodeType(count=3, features=("big",)),
            NodeType(name="g", count=1, gpus=2),
            NodeType(name="r", count=1, reserved_cores=1),
        ),
        partitions=(
            Partition(name="debug", default=True, node_types=("n",), max_time="1-00:00:00"),
            Partition(name="low", node_types=("n",), preempt="requeue"),
            Partition(name="high", node_types=("n",), priority_tier=10),
            Partition(name="gpu", node_types=("g",)),
            Partition(name="reserved", node_types=("r",)),
        ),
        accounting=True,
        accounts=(Account(name="project", users=("alice", "bob"), qos=("normal", "short")),),
        qos=(Qos(name="short"),),
        cgroup=not cgroups.why_not(),
        slurm_conf=("KillWait=2", "OverTimeLimit=0"),
    )
    with Cluster(spec, name=f"slurm-{os.getpid()}") as running:
        yield running


@pytest.fixture(scope="module")
def alice(cluster):
    return User(cluster, SITE)


def resources(**more):
    return {"ranks_per_node": 1, "walltime": "5m", **more}


def test_ranks_of_a_node_share_a_log(alice):
    """Three on each of two nodes; the last words of the one that fails are not lost when Slurm ends the step."""
    fails = "if ((RANK == 4)); then seq 2000; printf 'the end'; exit 5; else sleep 300; fi"
    job = alice.submit(
        {
            "command": bash(f"echo rank $RANK on $(uname -n); {ALL_HERE}; {fails}"),
            "logs": "node",
            "resources": resources(nodes=2, ranks_per_node=3),
        }
    )
    assert alice.ended(job)[0]["exit_code"] == 5, alice.log(job)
    names = {path.name for path in (alice.job_dir(job) / "logs").iterdir()}
    assert names == {"job.log", "rank-0-2.log", "rank-3-5.log"}
    hosts = alice.hosts(job)
    for rank in (0, 2, 3, 5):
        shown = alice.dlrun("logs", job, "--rank", str(rank)).stdout.splitlines()
        assert shown[0] == f"[rank {rank}] rank {rank} on {hosts[rank // 3]}"
    numbers = [str(number) for number in range(1, 2001)]
    failed = alice.dlrun("logs", job, "--first-failure").stdout.splitlines()
    assert failed == [f"rank 4 on {hosts[1]}", *numbers, "the end"]
    assert "the end of logs/rank-3-5.log:" in alice.log(job)
    assert "  | the end" in alice.log(job)
    alice.left_nothing(job, hosts)


ODD = ("100%", "50% off", "it's $HOME", "a b", "naïve", "#x;y")
SWEEPS = ("100%", "it's $HOME")
"""Names that sbatch's patterns (`filename pattern`), its backslash, or a shell would read."""


def test_job_directories_with_names_that_slurm_would_read(alice):
    jobs = {}
    for name in ODD:
        spec = {"command": bash("echo here"), "resources": resources()}
        if name in SWEEPS:
            spec |= {"command": [*bash("echo here"), "{{ x }}"], "sweep": {"x": [1, 2]}}
        jobs[name] = alice.submit(spec, "--job-dir", str(alice.directory / "jobs of mine" / name))
    for name, job in jobs.items():
        place = alice.directory / "jobs of mine" / name
        assert {run["state"] for run in alice.ended(job)} == {"completed"}, (name, alice.log(job))
        for run in ("points/0/", "points/1/") if name in SWEEPS else ("",):
            assert "starts; rank 0 is on" in (place / run / "logs" / "job.log").read_text(), name
            assert "here" in (place / run / "logs" / "rank-0.log").read_text(), name
        assert "here" in alice.dlrun("logs", job).stdout, name
        assert "removed the directory of 1 job" in alice.dlrun("clean", str(place), "--yes").stderr, name
        assert not place.exists()
    spec_of = alice.write("odd.yaml", {"name": "odd", "command": ["true"], "resources": resources()})
    for name in ("a\\b", "%5j\\%a", "%j", "%x.%u", "%%"):
        place = alice.directory / name
        refused = alice.dlrun("submit", str(spec_of), "--job-dir", str(place), code=2).stderr
        assert "has a special meaning" in refused
        assert not place.exists()


def test_from_submit_to_the_last_log_line(alice):
    """`--wait` follows rank 0's log over two hosts and exits with the job's exit code."""
    spec = alice.write(
        "hello.yaml",
        {
            "name": "hello",
            "command": bash(
                'echo "rank $RANK of $WORLD_SIZE on $(hostname), master $MASTER_ADDR"; touch "$DLRUN_RUN_DIR/said-$RANK"; '
                "if ((RANK == 1)); then until [[ -e $DLRUN_RUN_DIR/said-0 ]]; do sleep 0.1; done; exit 7; fi"
            ),
            "resources": resources(nodes=2),
        },
    )
    done = alice.dlrun("submit", str(spec), "--wait", code=7)
    assert "rank 0 of 2 on n" in done.stdout
    assert "first failure: rank 1 on n" in done.stdout
    assert "job directory:" in done.stdout


@pytest.mark.torch
def test_torch_trains_over_real_separate_networks(alice):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    train = PYTHON.parent.parent / "examples" / "digits" / "train.py"
    job = alice.submit(
        {
            "command": ["python", str(train), "--epochs", "6", "--expect", "0.9"],
            "resources": resources(nodes=2, ranks_per_node=2),
            "placement": {"threads": 1},
        }
    )
    (run,) = alice.ended(job, within=240)
    logs = alice.dlrun("logs", job, "--rank", "all").stdout
    assert run["state"] == "completed", logs
    assert "with 4 ranks, replicas equal" in logs
    assert {"n1", "n2", "n3"} >= {
        line.split(" on ")[1].split(",")[0] for line in logs.splitlines() if "cores" in line
    }


def test_each_way_to_end_is_reported_as_what_it_was(alice, cluster):
    """One job for each final state; they run at the same time where they can.

    Slurm looks for jobs whose time is over twice a minute.
    """
    one = resources(nodes=1, cpus_per_rank=1)
    jobs = {
        "completed": alice.submit({"command": bash("true"), "resources": one}),
        "failed": alice.submit({"command": bash("exit 3"), "resources": one}),
        "timed out": alice.submit({"command": bash("sleep 600"), "resources": {**one, "walltime": "1m"}}),
    }
    by_user = alice.submit({"command": bash("sleep 600"), "resources": one})
    by_admin = alice.submit({"command": bash("sleep 600"), "resources": one})
    alice.running(by_user)
    alice.running(by_admin)
    alice.dlrun("cancel", by_user)
    cluster.on("login", ["scancel", by_admin], user="root", check=True)
    jobs |= {"cancelled": by_user, "cancelled by admin": by_admin}
    states = {wanted: alice.ended(job, within=300)[0] for wanted, job in jobs.items()}
    assert {wanted: run["state"] for wanted, run in states.items()} == {wanted: wanted for wanted in jobs}
    assert states["completed"]["exit_code"] == 0
    assert states["failed"]["exit_code"] == 3


@pytest.mark.skipif(bool(cgroups.why_not()), reason=cgroups.why_not() or "")
def test_out_of_memory_is_reported_as_such(alice):
    eat = "import time; x = bytearray(400 << 20); time.sleep(20)"
    job = alice.submit(
        {
            "command": ["python3", "-c", eat],
            "resources": resources(nodes=1, cpus_per_rank=1, memory_per_node="100MiB"),
        }
    )
    (run,) = alice.ended(job)
    assert (run["state"], run["exit_code"]) == ("out of memory", 137)
    outcome = alice.job_dir(job) / "outcome.json"
    for client, answer in (
        ("sacct", "Slurm accounting storage is disabled"),
        ("squeue", "slurm_load_jobs error: Invalid job id specified"),
    ):
        outcome.unlink(missing_ok=True)  # both are asked again, and one does not know
        away = alice.directory / f"no-{client}"
        away.mkdir(mode=0o755)
        (away / client).write_text(f"#!/bin/sh\necho '{answer}' >&2\nexit 1\n")
        (away / client).chmod(0o755)
        done = alice.dlrun("status", job, "--json", env={"PATH": f"{away}:/usr/bin:/bin"})
        (run,) = json.loads(done.stdout)["jobs"][0]["runs"]
        assert (run["state"], run["exit_code"]) == ("out of memory", 137), client


def test_a_crashed_node_is_reported_as_such(alice, cluster):
    job = alice.submit({"command": bash("sleep 600"), "resources": resources(nodes=1, hosts=["n3"])})
    alice.running(job)
    cluster.kill_node("n3")
    try:
        # Slurm would see it by itself, but only after a time that must not be too short for nodes that are just slow.
        cluster.on("login", "scontrol update NodeName=n3 State=DOWN Reason=crashed", user="root", check=True)
        (run,) = alice.ended(job)
        assert run["state"] == "node failed"
    finally:
        cluster.start_node("n3")


def test_preemption_is_seen_and_the_job_comes_back(alice):
    low = alice.submit(
        {
            "command": bash("sleep 3600"),
            "resources": resources(nodes=3, partition="low", exclusive=True),
            "on_failure": {"requeue": 1},
        }
    )
    alice.running(low)
    high = alice.submit(
        {"command": bash("sleep 1"), "resources": resources(nodes=3, partition="high", exclusive=True)}
    )
    assert alice.ended(high, within=180)[0]["state"] == "completed"
    assert alice.state(low)[0]["state"] in ("pending", "running", "preempted")
    alice.dlrun("cancel", low)
    assert alice.ended(low)[0]["state"] == "cancelled"


@pytest.fixture
def course(cluster):
    """A reservation of two nodes for one user."""
    there = {"user": "root", "check": True}
    words = "ReservationName=course Users=alice StartTime=now Duration=60 Nodes=n1,n2 Flags=IGNORE_JOBS"
    cluster.on("login", f"scontrol create reservation {words}", **there)
    yield "course"
    cluster.on("login", "scontrol delete ReservationName=course", **there)


def test_every_directive_arrives_as_meant(alice, course):
    """Read back from Slurm itself, not from the script."""
    job = alice.submit(
        {
            "name": 'a "name" with #, % and spaces',
            "command": bash("true"),
            "resources": resources(
                nodes=2,
                ranks_per_node=2,
                cpus_per_rank=2,
                memory_per_node="512MiB",
                walltime="2h30m",
                partition="debug",
                account="project",
                qos="short",
                constraint="big",
                reservation=course,
                hosts=["n1", "n2"],
                exclude=["n3"],
                options={"comment": "one, two", "nice": "5"},
            ),
            "hold": True,
            "on_failure": {"requeue": 3},
        }
    )
    held = alice.scontrol(job)
    assert alice.state(job)[0]["state"] == "held"
    assert held["JobState"] == "PENDING"
    assert held["NumNodes"].startswith("2")
    assert held["NumTasks"] == "4"
    assert held["CPUs/Task"] == "2"
    assert held["MinMemoryNode"] == "512M"
    assert held["TimeLimit"] == "02:30:00"
    assert held["Partition"] == "debug"
    assert held["Account"] == "project"
    assert held["QOS"] == "short"
    assert held["Features"] == "big"
    assert held["Reservation"] == course
    assert held["ReqNodeList"] == "n[1-2]"
    assert held["ExcNodeList"] == "n3"
    assert held["Requeue"] == "1"
    alice.dlrun("release", job)
    assert alice.ended(job)[0]["state"] == "completed"


def test_dependencies_wait_and_a_broken_one_ends(alice):
    first = alice.submit({"command": bash("sleep 2; exit 1"), "resources": resources(cpus_per_rank=1)})
    after = {
        when: alice.submit(
            {
                "command": bash("true"),
                "resources": resources(cpus_per_rank=1),
                "after": [{"job": first, "when": when}],
            }
        )
        for when in ("ok", "any", "not_ok")
    }
    assert alice.ended(first)[0]["state"] == "failed"
    assert alice.ended(after["any"])[0]["state"] == "completed"
    assert alice.ended(after["not_ok"])[0]["state"] == "completed"
    assert alice.ended(after["ok"])[0]["state"] in ("cancelled", "cancelled by admin")


def test_a_sweep_is_one_array_with_one_call(alice, cluster):
    job = alice.submit(
        {
            "command": bash("echo lr={{ lr }} seed={{ seed }}; exit {{ seed }}"),
            "resources": resources(cpus_per_rank=1),
            "sweep": {"lr": ["0.1", "1e-4"], "seed": ["0", "4"]},
        }
    )
    runs = alice.ended(job)
    assert [(run["task"], run["exit_code"]) for run in runs] == [(0, 0), (1, 4), (2, 0), (3, 4)]
    points = alice.job_dir(job) / "points"
    assert (points / "2" / "logs" / "rank-0.log").read_text() == "lr=1e-4 seed=0\n"
    assert (points / "2" / "logs" / "job.log").exists()


def test_points_of_a_sweep_are_held_released_and_cancelled_one_by_one(alice):
    job = alice.submit(
        {
            "command": bash("[[ {{ x }} != long ]] || sleep 600"),
            "resources": resources(cpus_per_rank=1),
            "sweep": {"x": ["long", "short", "long", "short"]},
            "hold": True,
        }
    )
    alice.dlrun("release", f"{job}:0-2")
    alice.dlrun("cancel", f"{job}:2,0")
    wanted = ["cancelled", "completed", "cancelled", "held"]
    deadline = time.monotonic() + 120
    while (states := [run["state"] for run in alice.state(job)]) != wanted:
        assert time.monotonic() < deadline, states
        time.sleep(0.5)
    alice.dlrun("release", f"{job}:3")
    assert [run["state"] for run in alice.ended(job)] == [*wanted[:3], "completed"]


def test_ranks_are_bound_as_planned(alice):
    """Masks read back inside each rank equal the plan's table, on every node."""
    spec = alice.write(
        "bound.yaml",
        {
            "name": "bound",
            "command": bash('echo "$DLRUN_HOST $DLRUN_LOCAL_RANK $(taskset -c -p $$ | sed "s/.*: //")"'),
            "resources": resources(nodes=2, ranks_per_node=2, exclusive=True),
        },
    )
    plan = json.loads(alice.dlrun("plan", str(spec), "--json").stdout)
    table = {str(rank["rank"]): rank["mask"] for rank in plan["binding"]["placement"]["ranks"]}
    job = alice.dlrun("submit", str(spec), "--parsable").stdout.strip()
    assert alice.ended(job)[0]["state"] == "completed"
    logs = sorted((alice.job_dir(job) / "logs").glob("rank-*.log"))
    assert len(logs) == 4
    for log in logs:
        _, local_rank, cpus = log.read_text().splitlines()[-1].split()
        first, last = (int(part) for part in cpus.split("-"))
        assert list(range(first, last + 1)) == table[local_rank]


def test_shared_nodes_share_out_what_was_granted(alice):
    job = alice.submit(
        {
            "command": bash('echo "$OMP_NUM_THREADS $(taskset -c -p $$ | sed "s/.*: //")"'),
            "resources": resources(nodes=1, ranks_per_node=2, cpus_per_rank=2),
        }
    )
    assert alice.ended(job)[0]["state"] == "completed"
    masks = [(alice.job_dir(job) / "logs" / f"rank-{rank}.log").read_text().split() for rank in (0, 1)]
    assert [threads for threads, _ in masks] == ["2", "2"]
    assert masks[0][1] != masks[1][1]


WHERE = bash("echo $DLRUN_HOST $DLRUN_NODE_RANK $DLRUN_LOCAL_RANK $DLRUN_LOCAL_SIZE")
"""Each rank's place as it knows it; the host is where it really is."""


def places(alice, job, count):
    """What each rank of an ended job printed by `WHERE`."""
    logs = [alice.job_dir(job) / "logs" / f"rank-{rank}.log" for rank in range(count)]
    return [tuple(log.read_text().split()[-4:]) for log in logs]


@pytest.mark.parametrize("ranks", [11, 10, 9])
def test_uneven_nodes_fill_up_in_order(alice, ranks):
    wanted = {"nodes": 3, "ranks": ranks, "ranks_per_node": 4, "walltime": "5m", "cpus_per_rank": 1}
    job = alice.submit({"command": WHERE, "resources": wanted, "verify": "fail"})
    assert alice.ended(job)[0]["state"] == "completed"
    sizes = [4, 4, ranks - 8]
    expected = [
        (f"n{node + 1}", str(node), str(local), str(size))
        for node, size in enumerate(sizes)
        for local in range(size)
    ]
    assert places(alice, job, ranks) == expected
    log = (alice.job_dir(job) / "logs" / "job.log").read_text()
    assert all(f"n{node + 1}: {size} of {size} as planned" in log for node, size in enumerate(sizes)), log


def test_another_layout_than_the_plans_is_known_to_each_rank_and_named(cluster):
    cyclic = {**SITE, "launcher": {"name": "srun", "arguments": ["--distribution=cyclic"]}}
    alice = User(cluster, cyclic)
    wanted = {"nodes": 3, "ranks": 10, "ranks_per_node": 4, "walltime": "5m", "cpus_per_rank": 1}
    job = alice.submit({"command": WHERE, "resources": wanted, "verify": "warn"})
    assert alice.ended(job)[0]["state"] == "completed"
    sizes = [4, 3, 3]
    assert places(alice, job, 10) == [
        (f"n{rank % 3 + 1}", str(rank % 3), str(rank // 3), str(sizes[rank % 3])) for rank in range(10)
    ]
    log = (alice.job_dir(job) / "logs" / "job.log").read_text()
    for node, size in enumerate(sizes):
        assert f"n{node + 1}: " in log
        assert f"of {size} on node {node}, not " in log
    job = alice.submit({"command": WHERE, "resources": wanted, "verify": "fail"})
    assert alice.ended(job)[0]["state"] == "failed"


def test_cores_that_the_system_keeps_are_not_shared_out_and_no_two_ranks_have_the_same(alice):
    wanted = {"partition": "reserved", "ranks_per_node": 4, "cpus_per_rank": 1, "walltime": "5m"}
    masks = bash("echo mask $(taskset -c -p $BASHPID | sed 's/.*: //') $OMP_NUM_THREADS")
    job = alice.submit({"command": masks, "resources": wanted, "verify": "warn"})
    assert alice.ended(job)[0]["state"] == "completed"
    logs = [(alice.job_dir(job) / "logs" / f"rank-{rank}.log").read_text() for rank in range(4)]
    found = [log.partition("mask ")[2].split() for log in logs]
    assert len({cpus for cpus, _ in found}) == 4, found
    assert {count for _, count in found} == {"1"}, "seven cores are left for four ranks"
    assert "its ranks divide CPUs 0-6" in logs[0]
    assert "4 of 4 as divided among them" in (alice.job_dir(job) / "logs" / "job.log").read_text()


def test_gpus_are_asked_for_and_given(alice):
    job = alice.submit(
        {"command": bash("echo $CUDA_VISIBLE_DEVICES"), "resources": {"partition": "gpu", "walltime": "5m"}}
    )
    assert alice.ended(job)[0]["state"] == "completed"
    assert (alice.job_dir(job) / "logs" / "rank-1.log").exists(), "one rank for each GPU"
    assert "gres/gpu=2" in alice.scontrol(job)["TRES"] or "gpu:2" in str(alice.scontrol(job))


def test_a_shell_inside_another_job_changes_nothing(alice):
    hostile = {
        "SLURM_JOB_ID": "999999",
        "SLURM_CPU_BIND": "mask_cpu:0x1",
        "SLURM_NTASKS": "77",
        "SBATCH_PARTITION": "nonexistent",
        "SBATCH_ACCOUNT": "nobody",
        "SRUN_CPUS_PER_TASK": "64",
        "PMI_RANK": "5",
        "RANK": "9",
        "WORLD_SIZE": "99",
        "MASTER_ADDR": "203.0.113.1",
    }
    path = alice.write(
        "hostile.yaml",
        {
            "name": "hostile",
            "command": bash("echo $RANK/$WORLD_SIZE $MASTER_ADDR"),
            "resources": resources(nodes=1),
        },
    )
    done = alice.dlrun("submit", str(path), "--wait", env=hostile)
    assert "0/1 n" in done.stdout
    for name in hostile:
        assert name in done.stderr


def test_refusals_come_with_advice_and_leave_nothing(alice):
    before = alice.dlrun("list", "--json", "--limit", "1000").stdout
    path = alice.write(
        "refused.yaml", {"name": "x", "command": ["true"], "resources": resources(constraint="nowhere")}
    )
    done = alice.dlrun("submit", str(path), code=1)
    assert "sbatch refused the job" in done.stderr
    assert "Traceback" not in done.stderr
    assert alice.dlrun("list", "--json", "--limit", "1000").stdout == before


def test_check_asks_without_submitting(alice):
    path = alice.write("check.yaml", {"name": "x", "command": ["true"], "resources": resources(nodes=1)})
    assert " on n" in alice.dlrun("submit", str(path), "--check").stdout
    assert alice.dlrun("submit", str(path), "--check", "--set", "resources.nodes=9", code=1).stdout == ""


def test_check_names_a_partition_that_is_down(alice, cluster):
    """sbatch --test-only says when a job would start in it."""
    path = alice.write("down.yaml", {"name": "x", "command": ["true"], "resources": resources(nodes=1)})
    lines = cluster.on("login", ["scontrol", "show", "partition", "--oneliner"]).stdout.splitlines()
    default = next(line for line in lines if " Default=YES " in line).partition(" ")[0].partition("=")[2]
    state = ["scontrol", "update", f"PartitionName={default}"]
    cluster.on("login", [*state, "State=DOWN"], user="root", check=True)
    try:
        said = alice.dlrun("submit", str(path), "--check", "--set", f"resources.partition={default}").stdout
    finally:
        cluster.on("login", [*state, "State=UP"], user="root", check=True)
    assert said.startswith(f"none while the partition {default} is down")


def test_one_call_asks_for_any_number_of_jobs(alice):
    """squeue once and sacct once, counted by programs that stand before the real ones."""
    jobs = [
        alice.submit({"command": bash("true"), "resources": resources(cpus_per_rank=1)}) for _ in range(3)
    ]
    for job in jobs:
        alice.ended(job)
    held = [
        alice.submit({"command": bash("true"), "resources": resources(cpus_per_rank=1), "hold": True})
        for _ in range(3)
    ]
    count = alice.directory / "count"
    count.mkdir(mode=0o777)
    count.chmod(0o777)
    for client in ("squeue", "sacct", "sbatch", "scontrol", "sinfo"):
        program = count / client
        program.write_text(f'#!/bin/sh\necho {client} >> {count}/calls\nexec /usr/bin/{client} "$@"\n')
        program.chmod(0o755)
    env = {"PATH": f"{count}:{PYTHON}:/usr/bin:/bin"}
    alice.dlrun("status", *jobs, *held, env=env)
    assert (count / "calls").read_text().split().count("squeue") == 1
    assert (count / "calls").read_text().split().count("sacct") <= 1
    (count / "calls").unlink()
    path = alice.write("dry.yaml", {"name": "x", "command": ["true"], "resources": resources()})
    alice.dlrun("submit", str(path), "--dry-run", env=env)
    assert not (count / "calls").exists(), "a dry run asks no scheduler"
    alice.dlrun("submit", str(path), env=env)
    calls = (count / "calls").read_text().split()
    assert calls[:2] == ["scontrol", "sbatch"], "which cluster is this; the job"
    assert set(calls[2:]) <= {"scontrol"}, "the job itself asks for its hosts"
    alice.dlrun("cancel", *held)


def test_a_killed_rank_ends_the_job_and_is_named(alice, cluster):
    job = alice.submit(
        {"command": bash("exec -a training-to-kill sleep 600"), "resources": resources(nodes=2)}
    )
    host = alice.hosts(job)[1]
    kill = "pkill -KILL -f '^training-to-kill'"
    await_true(lambda: cluster.on(host, kill, user="root").returncode == 0, 60, "the rank to begin")
    (run,) = alice.ended(job)
    assert run["state"] == "failed"
    assert "ended with exit code 137" in alice.dlrun("logs", job, "--rank", "job").stdout
    alice.left_nothing(job, cluster.spec.nodes)


def test_set_up_lines_after_the_virtual_environment(alice, cluster):
    venv = alice.directory / "venv"
    cluster.on(
        "login", [str(PYTHON / "python"), "-m", "venv", "--without-pip", str(venv)], check=True, timeout=180
    )
    job = alice.submit(
        {
            "command": bash("echo $VIRTUAL_ENV; command -v python; echo $MARK"),
            "environment": {
                "venv": str(venv),
                "setup": ["MARK='set; up'", "export MARK"],
                "variables": {"QUOTED": "a'b $HOME"},
            },
            "resources": resources(nodes=1),
        }
    )
    assert alice.ended(job)[0]["state"] == "completed"
    log = (alice.job_dir(job) / "logs" / "rank-0.log").read_text()
    assert log == f"{venv}\n{venv}/bin/python\nset; up\n"
