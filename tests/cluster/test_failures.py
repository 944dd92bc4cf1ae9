"""Failures forced on a real Slurm: each job ends within its bound, with the right cause, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, why_not
from tests.cluster.hosts import await_true
from tests.cluster.jobs import User, bash

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]

SITE = {
    "name": "test-failures",
    "scheduler": {"type": "slurm", "version": "22.05", "memory": "none"},
    "launcher": {"name": "srun"},
    "partitions": {"debug": {"default": True}, "low": {"preemptable": True}, "high": {}},
}
NODES = ("n1", "n2", "n3")
NAME = f"failures-{os.getpid()}"
PROLOG = Path(f"/srv/dlrun-{NAME}/shared/task-prolog")
BOTH = {"nodes": 2, "ranks_per_node": 1, "cpus_per_rank": 1, "walltime": "10m"}
ONE = {**BOTH, "nodes": 1}


@pytest.fixture(scope="module")
def cluster():
    spec = ClusterSpec(
        node_types=(NodeType(count=3, tmp_mib=96),),
        partitions=(
            Partition(name="debug", default=True),
            Partition(name="low", preempt="requeue"),
            Partition(name="high", priority_tier=10),
        ),
        accounting=True,
        enforce="associations",
        slurm_conf=("SlurmdTimeout=5", "MessageTimeout=5", "KillWait=2", f"TaskProlog={PROLOG}"),
    )
    with Cluster(spec, name=NAME) as running:
        PROLOG.write_text("#!/bin/sh\n")
        PROLOG.chmod(0o755)
        yield running


@pytest.fixture
def alice(cluster):
    return User(cluster, SITE)


def runs_of(alice, job: str) -> list[str]:
    """What each run of a training that counts them said; the shell may have said that it was terminated too."""
    return [line for line in alice.log(job, "rank-0").splitlines() if line.startswith("run ")]


def test_an_account_that_is_not_yours_is_refused_at_once(alice):
    """Real accounting, real words; what is told is read from `sacctmgr`."""
    wrong = {"name": "x", "command": ["true"], "resources": {**ONE, "account": "projcet"}}
    spec = str(alice.write("wrong.yaml", wrong))
    for words in (("submit", spec, "--job-dir", "never"), ("submit", spec, "--check")):
        said = alice.dlrun(*words, code=1)
        assert "Invalid account or account/partition combination specified" in said.stderr
        assert "did you mean `project`? set `resources.account`; yours: `project`\n" in said.stderr
        assert said.stderr.count("error: sbatch refused the job") == 1
    assert not (alice.directory / "never").exists()


def test_a_rank_that_is_killed(alice, cluster):
    job = alice.submit({"command": bash("echo begun; exec sleep 600"), "resources": BOTH})
    alice.begun(job, 1)
    host = alice.hosts(job)[1]
    kill = "kill -9 $(pgrep -u alice -x sleep)"  # `sleep` a moment after the rank has spoken
    await_true(lambda: cluster.on(host, kill, user="root").returncode == 0, 60, "the rank to be killed")
    assert alice.ended(job)[0]["state"] == "failed"
    answer = alice.why(job)
    assert answer["cause"] == "killed"
    assert (answer["first"]["rank"], answer["first"]["host"]) == (1, host)
    alice.left_nothing(job, NODES)


def test_a_job_script_that_is_killed(alice, cluster):
    job = alice.submit({"command": bash("echo begun; exec sleep 600"), "resources": BOTH})
    alice.begun(job)
    host = alice.hosts(job)[0]
    cluster.on(host, "kill -9 $(pgrep -u alice -f slurm_script)", user="root", check=True)
    assert alice.ended(job)[0]["state"] == "failed"
    assert alice.why(job)["cause"] == "killed"
    alice.left_nothing(job, NODES)


def test_a_full_local_disk(alice, cluster):
    fill = "echo begun; head -c 120M /dev/zero >/tmp/shard"
    job = alice.submit({"command": bash(fill), "resources": ONE})
    assert alice.ended(job)[0]["state"] == "failed"
    assert alice.why(job)["cause"] == "disk-full"
    for node in NODES:  # what is full already when the job begins must not stop it
        cluster.on(node, "rm -f /tmp/shard; head -c 120M /dev/zero >/tmp/full", user="root")
    try:
        after = alice.submit({"command": bash("echo begun"), "resources": BOTH})
        assert alice.ended(after)[0]["state"] == "completed", alice.log(after)
    finally:
        for node in NODES:
            cluster.on(node, "rm -f /tmp/full", user="root")
    alice.left_nothing(job, NODES)


def test_a_disk_that_fills_up_below_the_job_directory(alice, cluster):
    """No note of the failure can be written, nor the job's end: a job of this host alone, whose directory has 2 MiB."""
    cluster.on("login", "mount -t tmpfs -o size=2m,mode=1777 tmpfs /mnt", user="root", check=True)
    fill = "((RANK)) && exec sleep 600; echo begun; head -c 9M /dev/zero >{{ run_dir }}/checkpoint"
    path = alice.write(
        "small.yaml",
        {
            "name": "small",
            "framework": "torch",
            "command": bash(fill),
            "resources": {"ranks_per_node": 2, "cpus_per_rank": 1},
        },
    )
    there = {"XDG_STATE_HOME": "/mnt"}
    try:
        alice.dlrun("submit", str(path), "--site", "workstation", "--wait", env=there, code=1)
        (answer,) = json.loads(alice.dlrun("why", "latest", "--json", env=there).stdout)["why"]
        assert answer["cause"] == "disk-full"
        log = alice.dlrun("logs", "latest", "--rank", "job", env=there).stdout
        assert "ended with exit code 1" in log
        assert "syntax error" not in log
        assert "argument required" not in log
        assert not cluster.on("login", ["pgrep", "-u", "alice", "-x", "sleep"], user="root").stdout
    finally:
        cluster.on("login", "umount -l /mnt", user="root")


def test_occupied_ports(alice, cluster):
    """The job takes another port; a program that insists on one of its own ends with that cause."""
    listen = "import socket, time; s = socket.socket(); s.bind(('', 20000)); s.listen(); time.sleep(600)"
    try:
        for node in NODES:
            cluster.on(
                node, f'setsid python3 -c "{listen}" </dev/null >/dev/null 2>&1 &', user="root", check=True
            )
            taken = "grep -qi ':4E20 00000000:0000 0A' /proc/net/tcp"
            await_true(
                lambda node=node, taken=taken: cluster.on(node, taken).returncode == 0, 30, "a listener"
            )
        alice.write("site.yaml", {**SITE, "rendezvous": {"ports": [20000, 20001]}})
        own = "import os, socket; socket.socket().bind(('', int(os.environ['MASTER_PORT']))); print('bound')"
        good = alice.submit({"command": ["python3", "-c", own], "resources": ONE})
        assert alice.ended(good)[0]["state"] == "completed", alice.log(good)
        assert (alice.job_dir(good) / "rendezvous").read_text().split()[1] == "20001"
        bad = alice.submit(  # not before: on one node with the first, it would hold the only port left
            {
                "command": ["python3", "-c", "import socket; socket.socket().bind(('', 20000))"],
                "resources": ONE,
            }
        )
        assert alice.ended(bad)[0]["state"] == "failed"
        assert alice.why(bad)["cause"] == "port-in-use"
    finally:
        for node in NODES:
            cluster.on(node, "kill $(pgrep -f 's.listen')", user="root")
    alice.left_nothing(bad, NODES)


def test_a_clock_that_is_wrong(alice, cluster):
    shim = cluster.shared / "clock.so"
    source = Path(__file__).with_name("clock.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", shim, source, "-ldl"], check=True)
    shim.chmod(0o755)
    PROLOG.write_text(f"#!/bin/sh\ncase $(uname -n) in n2*) echo export LD_PRELOAD={shim} ;; esac\n")
    try:
        job = alice.submit({"command": bash("echo begun"), "resources": {**BOTH, "spare_nodes": 1}})
        assert alice.ended(job)[0]["state"] == "completed", alice.log(job)
        assert re.search(r"node n2: its clock is \+(60|59|58)\.\d s from the others'", alice.log(job))
        assert alice.hosts(job) == ["n1", "n3"]
        # Slurm hears of the end of rank 1 only once what that leaves behind is gone, too.
        leaves_one = "((RANK == 0)) || { (trap '' TERM; exec sleep 60) & exit 4; }"
        after = "until [[ -e $DLRUN_RUN_DIR/failures/rank-1 ]]; do sleep 0.1; done; exit 3"
        both = {**BOTH, "hosts": ["n1", "n2"]}
        job = alice.submit({"command": bash(f"{leaves_one}; {after}"), "resources": both})
        (run,) = alice.ended(job)
        first = alice.why(job)["first"]
        assert (first["rank"], first["host"], first["code"], run["exit_code"]) == (1, "n2", 4, 4), alice.log(
            job
        )
        note = alice.job_dir(job) / "failures" / "rank-1"
        assert first["time"] < note.stat().st_mtime, "by the first node's clock"
        assert "first failure: rank 1 on n2 ended with exit code 4; by time alone, `dlrun why" in alice.log(
            job
        )
    finally:
        PROLOG.write_text("#!/bin/sh\n")


def test_a_second_cancel_during_the_first(alice, cluster):
    """The program ends for nobody, so the first cancel takes its time."""
    stubborn = "trap '' TERM INT; echo begun; while :; do sleep 1; done"
    job = alice.submit({"command": bash(stubborn), "resources": BOTH})
    alice.begun(job, 1)
    alice.dlrun("cancel", job)
    alice.dlrun("cancel", job, code=None)
    assert alice.ended(job)[0]["state"] == "cancelled"
    assert alice.why(job)["cause"] == "cancelled"
    alice.left_nothing(job, NODES)


def test_put_back_by_hand_and_preempted(alice, cluster):
    """Both go on as the next run of the same job; a job that may not be started again says that it was preempted."""
    counts = 'echo "run $DLRUN_RESTART"; ((DLRUN_RESTART)) || exec sleep 600'
    low = {**BOTH, "nodes": 3, "partition": "low", "exclusive": True}
    job = alice.submit({"command": bash(counts), "resources": low, "on_failure": {"requeue": 2}})
    alice.begun(job)
    high = alice.submit({"command": bash("echo begun"), "resources": {**low, "partition": "high"}})
    assert alice.ended(high, within=120)[0]["state"] == "completed"
    assert alice.ended(job, within=120)[0]["state"] == "completed", alice.log(job)
    assert runs_of(alice, job) == ["run 0", "run 1"]

    by_hand = alice.submit({"command": bash(counts), "resources": BOTH, "on_failure": {"requeue": 1}})
    lost = alice.submit(
        {"command": bash("echo begun; exec sleep 600"), "resources": {**ONE, "partition": "low"}}
    )
    alice.begun(by_hand)
    alice.begun(lost)
    cluster.on("login", ["scontrol", "requeue", by_hand], user="alice", check=True)
    high = alice.submit({"command": bash("echo begun"), "resources": {**low, "partition": "high"}})
    assert alice.ended(lost, within=120)[0]["state"] == "preempted"
    assert alice.why(lost)["cause"] == "preempted"
    assert alice.ended(by_hand, within=120)[0]["state"] == "completed", alice.log(by_hand)
    assert runs_of(alice, by_hand) == ["run 0", "run 1"]
    alice.ended(high, within=120)
    for one in (job, by_hand, lost):
        alice.left_nothing(one, NODES)


def test_a_node_whose_slurmd_is_killed(alice, cluster):
    job = alice.submit({"command": bash("echo begun; exec sleep 600"), "resources": BOTH})
    alice.begun(job, 1)
    host = alice.hosts(job)[1]
    cluster.on(host, "kill -9 $(pgrep -x slurmd)", user="root", check=True)
    try:
        assert alice.ended(job, within=120)[0]["state"] == "node failed"
        assert alice.why(job)["cause"] == "node"
    finally:
        cluster.kill_node(host)  # what still runs there, nobody can end
        cluster.start_node(host)
    alice.left_nothing(job, NODES)
