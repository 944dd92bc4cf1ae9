"""Failures forced on a real OpenPBS where one is installed: each job ends with the right cause and leaves nothing behind."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, pbs, why_no_pbs, why_not
from tests.cluster.hosts import await_true
from tests.cluster.jobs import PYTHON, User, bash, whole

_WHY_NOT = why_not() or why_no_pbs()
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(bool(_WHY_NOT), reason=_WHY_NOT),
]

SITE = {
    "name": "test-pbs-failures",
    "scheduler": {"type": "openpbs"},
    "launcher": {"name": "ssh"},
    "partitions": {"work": {"default": True, "max_walltime": "10m"}, "express": {}},
}
NODES = ("n1", "n2", "n3")
STEPS = (Path(__file__).parent.parent / "steps.py").read_text(encoding="utf-8")
BOTH = {"nodes": 2, "ranks_per_node": 1, "cpus_per_rank": 1, "walltime": "10m"}
ONE = {**BOTH, "nodes": 1}
SPARE = {**BOTH, "spare_nodes": 1}


@pytest.fixture(scope="module")
def cluster():
    spec = ClusterSpec(
        scheduler="pbs",
        node_types=(NodeType(count=3, tmp_mib=96),),
        partitions=(
            Partition(name="work", default=True, max_time="1-00:00:00", preempt="requeue"),
            Partition(name="express", priority_tier=10),
        ),
        sshd=True,
    )
    with Cluster(spec, name=f"pbsfail-{os.getpid()}") as running:
        yield running


@pytest.fixture
def alice(cluster):
    user = User(cluster, SITE)
    user.write("steps.py", STEPS)
    return user


def test_a_rank_that_is_killed(alice, cluster):
    job = alice.submit({"command": bash("echo begun; exec sleep 600"), "resources": BOTH})
    alice.begun(job, 1)
    host = alice.hosts(job)[1]
    cluster.on(host, "kill -9 $(pgrep -u alice -x sleep)", user="root", check=True)
    assert alice.ended(job)[0]["state"] == "failed"
    answer = alice.why(job)
    assert answer["cause"] == "killed"
    assert (answer["first"]["rank"], answer["first"]["host"]) == (1, host)
    alice.left_nothing(job, NODES)


def test_a_job_script_that_is_killed(alice, cluster):
    job = alice.submit({"command": bash("echo begun; exec sleep 600"), "resources": BOTH})
    alice.begun(job, 1)
    script = f"{job.partition('.')[0]}[.].*[.]SC$"
    cluster.on(alice.hosts(job)[0], f"kill -9 $(pgrep -u alice -f '{script}')", user="root", check=True)
    assert alice.ended(job)[0]["state"] == "failed"
    assert alice.why(job)["cause"] == "killed"
    alice.left_nothing(job, NODES)


def test_a_full_local_disk(alice, cluster):
    job = alice.submit({"command": bash("echo begun; head -c 120M /dev/zero >/tmp/shard"), "resources": ONE})
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


def test_an_occupied_port(alice):
    """The job's own are free ones; a program that insists on a port of its own ends with that cause."""
    taken = "import socket; a = socket.socket(); a.bind(('', 0)); socket.socket().bind(a.getsockname())"
    job = alice.submit({"command": ["python3", "-c", taken], "resources": ONE})
    assert alice.ended(job)[0]["state"] == "failed"
    assert alice.why(job)["cause"] == "port-in-use"


def test_bad_nodes_are_left_out_by_the_job_itself(alice):
    """PBS grants what it likes; the job leaves out a node that fails its checks, and next time that one at once."""
    check = "[[ $(uname -n) != n2* ]] || { echo the fan is dead; false; }"
    alice.write("site.yaml", {**SITE, "node_checks": [check]})
    job = alice.submit({"command": bash("echo here"), "resources": SPARE})
    assert alice.ended(job)[0]["state"] == "completed", alice.log(job)
    assert "the fan is dead" in alice.log(job)
    assert alice.hosts(job) == ["n1", "n3"]
    done = alice.dlrun("resubmit", job, "--json")
    assert "n2 (PBS has no option to exclude nodes" in done.stderr
    again = json.loads(done.stdout)["job"]["job_id"]
    assert alice.ended(again)[0]["state"] == "completed", alice.log(again)
    assert "granted, but to be left out: 1 of 3 nodes" in alice.log(again)
    assert "the fan is dead" not in alice.log(again)
    assert alice.hosts(again) == ["n1", "n3"]


def test_excluded_nodes_are_left_out_by_the_job_itself(alice):
    job = alice.submit({"command": bash("echo here"), "resources": {**SPARE, "exclude": ["n1"]}})
    assert alice.ended(job)[0]["state"] == "completed", alice.log(job)
    assert alice.hosts(job) == ["n2", "n3"]
    spec = alice.write(
        "refused.yaml", {"name": "x", "command": ["true"], "resources": {**BOTH, "exclude": ["n1"]}}
    )
    refused = alice.dlrun("submit", str(spec), code=2)
    assert "set resources.spare_nodes, so that the job can do without such a node" in refused.stderr


def test_a_node_that_dies_is_replaced_in_the_same_allocation(alice, cluster):
    """Another than the first, on which the job's script runs."""
    job = alice.submit(
        {
            "command": ["python3", "steps.py", "60", "0.5", "{{ run_dir }}/checkpoint-{{ rank }}"],
            "resources": SPARE,
            "checkpoint": {"before_end": "60s"},
        }
    )
    await_true(lambda: "step 3\n" in alice.log(job, "rank-1"), 90, "the training to begin")
    lost = alice.hosts(job)[1]
    cluster.kill_node(lost)
    try:
        (run,) = alice.ended(job, within=300)
        log = alice.log(job)
        assert run["state"] == "completed", log
        assert f"node {lost}: did not answer" in log
        assert lost not in alice.hosts(job)
        runs = [line.split()[1] for line in alice.log(job, "rank-0").splitlines() if line.startswith("run ")]
        assert runs == ["0", "1"]
    finally:
        cluster.start_node(lost)
        pbs.await_ready(cluster)


def test_a_node_that_dies_without_a_spare_one_is_left_to_the_next_job(alice, cluster):
    """What the others saved when they were asked to end is where the next run goes on.

    The job asks its nodes and submits the next one; where the mom is quicker, PBS puts the same job back.
    """
    saved = "{{ run_dir }}/checkpoint"
    job = alice.submit(
        {
            "command": ["python3", "steps.py", "30", "0.5", saved],
            "resources": BOTH,
            "checkpoint": {"before_end": "60s", "path": saved},
            "on_failure": {"requeue": 1},
        }
    )
    place = alice.job_dir(job)
    await_true(lambda: "step 3\n" in alice.log(job, "rank-1"), 90, "the training to begin")
    lost = alice.hosts(job)[1]
    cluster.kill_node(lost)
    try:
        trained_once(alice, place, 30, runs=2)
        if (place / "job-id").exists():
            log = (place / "logs" / "job.log").read_text()
            assert f"not answering any more: {lost}" in log
            assert "run 1 of at most 2 ends (node failed); another follows" in log
        assert lost not in (place / "hosts").read_text().split()
    finally:
        cluster.start_node(lost)
        pbs.await_ready(cluster)


@pytest.mark.parametrize("which", [0, 1])
def test_a_mom_that_is_killed_ends_the_job(alice, cluster, which):
    """The first one runs the job's script; without another one the first ends the job (`$max_poll_downtime`)."""
    job = alice.submit({"command": bash("echo begun; exec sleep 600"), "resources": BOTH})
    alice.begun(job, 1)
    host = alice.hosts(job)[which]
    cluster.on(host, "kill -9 $(pgrep -x pbs_mom)", user="root", check=True)
    try:
        assert alice.ended(job, within=180)[0]["state"] == "node failed"
        assert alice.why(job)["cause"] == "node"
        if which:  # what still runs where the first one was, nobody can end
            alice.left_nothing(job, NODES)
    finally:
        cluster.kill_node(host)
        cluster.start_node(host)
        pbs.await_ready(cluster)
    alice.left_nothing(job, NODES)


def test_a_clock_that_is_wrong(alice, cluster):
    """Two hours ahead on one node: the acceptance test says so, and a job with a spare node leaves it out."""
    shim = cluster.shared / "clock.so"
    source = Path(__file__).with_name("clock.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", shim, source, "-ldl"], check=True)
    shim.chmod(0o755)
    start = cluster.home("alice") / ".bashrc"  # also for what ssh starts
    before = start.read_text() if start.exists() else ""
    start.write_text(f"[[ $(uname -n) != n2* ]] || export LD_PRELOAD={shim} CLOCK_AHEAD=7200\n{before}")
    try:
        alice.write("spec.yaml", {"name": "x", "command": bash("echo begun"), "resources": BOTH})
        said = alice.dlrun("verify", "spec.yaml", code=1)
        ahead = r"its clock is \+72\d\d\.\d s from "
        assert re.search(ahead + "rank 0's; likely: no time service on a node", said.stdout), said.stdout
        job = alice.submit({"command": bash("echo begun"), "resources": SPARE})
        assert alice.ended(job)[0]["state"] == "completed", alice.log(job)
        assert re.search(f"node n2: {ahead}the others'", alice.log(job)), alice.log(job)
        assert alice.hosts(job) == ["n1", "n3"]
    finally:
        start.write_text(before)


def test_a_second_cancel_during_the_first(alice):
    """The program ends for nobody, so the first cancel takes its time."""
    stubborn = "trap '' TERM INT; echo begun; while :; do sleep 1; done"
    job = alice.submit({"command": bash(stubborn), "resources": BOTH})
    alice.begun(job, 1)
    alice.dlrun("cancel", job)
    alice.dlrun("cancel", job, code=None)
    assert alice.ended(job)[0]["state"] == "cancelled"
    assert alice.why(job)["cause"] == "cancelled"
    alice.left_nothing(job, NODES)


def trained_once(alice, place: Path, steps: int, *, runs: int) -> None:
    """Wait for a training's last run: every step once, in order, and nobody told who should not be."""

    def over() -> bool:
        return alice.state(str(place))[0]["state"] in ("completed", "failed", "timed out", "cancelled")

    await_true(over, 420, "the last of its runs to end")
    log = (place / "logs" / "rank-0.log").read_text()
    assert alice.state(str(place))[0]["state"] == "completed", log + (place / "logs" / "job.log").read_text()
    words = [line.split() for line in log.splitlines()]
    assert [int(w[1]) for w in words if w[0] == "step"] == list(range(1, steps + 1))
    assert [int(w[1]) for w in words if w[0] == "run"] == list(range(runs))
    assert {w[3] for w in words if w[0] == "told"} == {"alive"}, "no data loader was told"
    assert float(words[-1][1]) == whole(steps)


def test_a_training_longer_than_its_walltime_is_told_saves_and_goes_on(alice):
    """Three minutes of steps where a minute is all that the queue allows: each time under a new id, on two nodes."""
    saved = "{{ run_dir }}/checkpoint"  # of rank 0, for all
    alice.write("short.yaml", {**SITE, "partitions": {"work": {"default": True, "max_walltime": "1m"}}})
    job = alice.submit(
        {
            "command": ["python3", "steps.py", "165", "1", saved],
            "resources": {**BOTH, "walltime": "4m"},
            "checkpoint": {"before_end": "10s", "path": saved},
            "chain": True,
        },
        "--site",
        "short.yaml",
    )
    place = alice.job_dir(job)
    followed = alice.dlrun("logs", "-f", job, timeout=420)
    assert "step 165\n" in followed.stdout, "it follows the runs that have other ids, too"
    trained_once(alice, place, 165, runs=4)
    assert (place / "logs" / "job.log").read_text().count("another follows") == 3


def express(alice) -> str:
    """A short job on all nodes that others make way for."""
    place = {**BOTH, "nodes": 3, "partition": "express", "exclusive": True}
    return alice.submit({"command": bash("echo begun"), "resources": place})


def test_a_job_that_is_preempted_saves_and_goes_on(alice):
    """PBS asks it to end and puts it back into the queue under the same id."""
    saved = "{{ run_dir }}/checkpoint"
    job = alice.submit(
        {
            "command": ["python3", "steps.py", "20", "1", saved],
            "resources": BOTH,
            "checkpoint": {"before_end": "60s", "path": saved},
            "on_failure": {"requeue": 1},
        }
    )
    await_true(lambda: "step 3\n" in alice.log(job, "rank-0"), 90, "the training to begin")
    assert alice.ended(express(alice), within=120)[0]["state"] == "completed"
    trained_once(alice, alice.job_dir(job), 20, runs=2)
    assert alice.state(job)[0]["restarts"] == 1
    alice.left_nothing(job, NODES)


def test_a_second_rerun_during_the_first_counts_once(alice, cluster):
    """The program ends for nobody, so that the first takes its time."""
    counts = "trap '' TERM; echo \"run $DLRUN_RESTART\"; ((DLRUN_RESTART)) || while :; do sleep 1; done"
    job = alice.submit({"command": bash(counts), "resources": BOTH, "on_failure": {"requeue": 2}})
    alice.begun(job, 1)
    done = cluster.on("login", f"qrerun {job} & qrerun {job}; wait", user="root", timeout=180)
    assert alice.ended(job, within=180)[0]["state"] == "completed", done.stderr + alice.log(job)
    runs = [line for line in alice.log(job, "rank-0").splitlines() if line.startswith("run ")]
    assert runs == ["run 0", "run 1"]
    assert alice.state(job)[0]["restarts"] == 1
    alice.left_nothing(job, NODES)


def test_a_job_that_is_preempted_by_deletion_says_so(alice, cluster):
    job = alice.submit({"command": bash("echo begun; exec sleep 600"), "resources": BOTH})
    alice.begun(job, 1)
    pbs.preempt_by(cluster, "D")
    try:
        high = express(alice)
        assert alice.ended(job, within=120)[0]["state"] == "preempted"
        assert alice.why(job)["cause"] == "preempted"
        assert alice.ended(high, within=120)[0]["state"] == "completed"
    finally:
        pbs.preempt_by(cluster, "R")
    alice.left_nothing(job, NODES)


def test_inside_an_interactive_job_nothing_is_submitted(alice, cluster):
    """As a person does it, on a terminal: `qsub -I`, then `dlrun verify --here` in the shell that comes."""
    alice.write("spec.yaml", {"name": "x", "command": ["no-such-training"], "resources": BOTH})
    ours, theirs = pty.openpty()
    shell = cluster.popen(
        "login",
        ["qsub", "-I", "-l", "select=2:ncpus=1:mpiprocs=1", "-l", "place=scatter"],
        user="alice", cwd=str(alice.directory), stdin=theirs, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    line = "dlrun verify spec.yaml --here --site site.yaml --json >said.json 2>said.txt; echo $? >code"
    try:
        os.write(ours, f"cd {alice.directory}; PATH={PYTHON}:$PATH; {line}; exit\n".encode())
        shell.wait(timeout=120)
    finally:
        os.killpg(shell.pid, signal.SIGTERM) if shell.poll() is None else None
        os.close(ours)
    told = (alice.directory / "said.txt").read_text()
    assert (alice.directory / "code").read_text() == "0\n", told
    ranks = json.loads((alice.directory / "said.json").read_text())["verify"]["ranks"]
    assert [(one["report"]["rank"], one["differences"]) for one in ranks] == [(0, []), (1, [])]
    assert len({one["report"]["host"] for one in ranks}) == 2
