"""Spare nodes on a real Slurm: a bad node is left out, a node that dies is replaced."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, slurm, why_not
from tests.cluster.hosts import await_none, await_true
from tests.cluster.jobs import User, bash
from tests.examples import cases

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]

SITE = {
    "name": "test-nodes",
    "scheduler": {"type": "slurm", "version": "22.05", "memory": "none"},
    "launcher": {"name": "srun"},
    "partitions": {"debug": {"default": True}},
}
STEPS = (Path(__file__).parent.parent / "steps.py").read_text(encoding="utf-8")
PLACE = {"nodes": 2, "spare_nodes": 1, "ranks_per_node": 1, "cpus_per_rank": 1, "walltime": "10m"}


@pytest.fixture(scope="module")
def cluster():
    spec = ClusterSpec(
        node_types=(NodeType(count=4),),
        accounting=True,
        sshd=True,
        slurm_conf=("SlurmdTimeout=5", "MessageTimeout=5", "KillWait=2"),
    )
    with Cluster(spec, name=f"nodes-{os.getpid()}") as running:
        yield running


@pytest.fixture
def alice(cluster):
    """A user; a job for three of the four nodes is given the first three, since no earlier one holds any."""
    slurm.await_ready(cluster)
    user = User(cluster, SITE)
    user.write("steps.py", STEPS)
    return user


def test_a_bad_node_is_left_out_and_remembered(alice):
    check = "[[ $(uname -n) != n2* ]] || { echo the fan is dead; false; }"
    alice.write("site.yaml", {**SITE, "node_checks": [check]})
    job = alice.submit({"command": bash("echo here"), "resources": PLACE})
    (run,) = alice.ended(job)
    log = alice.log(job)
    assert run["state"] == "completed", log
    assert "node n2: `" in log
    assert "the fan is dead" in log
    assert "of 3 nodes these are used: n1,n3" in log
    assert (alice.job_dir(job) / "hosts").read_text().split() == ["n1", "n3"]
    again = alice.dlrun("resubmit", job, "--json")
    place = Path(json.loads(again.stdout)["job"]["directory"])
    assert "#SBATCH --exclude=n2" in (place / "job.sh").read_text()
    alice.dlrun("cancel", str(place))


@pytest.mark.parametrize("launcher", ["openmpi", "hydra", "ssh"])
def test_each_launcher_starts_ranks_on_the_good_nodes_alone(alice, launcher):
    """Others than srun see the whole allocation, and are told the hosts."""
    program = {"openmpi": "mpirun.openmpi", "hydra": "mpiexec.hydra", "ssh": "ssh"}[launcher]
    if alice.cluster.on("login", ["which", program]).returncode:
        pytest.skip(f"{program} is not installed")
    check = "[[ $(uname -n) != n2* ]] || { echo the fan is dead; false; }"
    site = {**SITE, "launcher": {"name": launcher, "program": program}, "node_checks": [check]}
    alice.write("site.yaml", site)
    job = alice.submit(
        {
            "command": bash("echo $RANK of $WORLD_SIZE on $DLRUN_HOST"),
            "resources": {**PLACE, "ranks_per_node": 2},
        }
    )
    assert alice.ended(job, within=120)[0]["state"] == "completed", alice.log(job)
    assert "node n2: `" in alice.log(job)
    assert alice.hosts(job) == ["n1", "n3"]
    said = [alice.log(job, f"rank-{rank}").splitlines()[-1] for rank in range(4)]
    assert said == ["0 of 4 on n1", "1 of 4 on n1", "2 of 4 on n3", "3 of 4 on n3"]


def test_a_requeued_job_is_not_given_its_bad_nodes_again(alice):
    """Both nodes but the first are bad at first: the next run gets what is left, and that is too little."""
    checks = ["[[ $(uname -n) == n1* ]] || { echo dark; false; }"]
    alice.write("site.yaml", {**SITE, "node_checks": checks})
    spec = {"command": bash("echo trained"), "resources": PLACE, "on_failure": {"requeue": 1}}
    job = alice.submit(spec)
    await_true(lambda: alice.scontrol(job).get("ExcNodeList") == "n2,n3", 60, "the bad nodes to be excluded")
    assert "another follows" in alice.log(job)
    alice.dlrun("cancel", job)


def test_each_fault_of_a_node_is_named_as_it_is(alice, cluster):
    """A full disk, an interface that is down, one that is not there; what no node has is said of the profile."""

    def everywhere(line: str, *nodes: str) -> None:
        for node in nodes or ("n1", "n2", "n3", "n4"):
            cluster.on(node, ["bash", "-ec", line], user="root", check=True)

    everywhere(
        "mkdir -p -m 1777 /tmp/local; ip link add ib0 type veth peer name ib0p; ip link set ib0p up; ip link set ib0 up"
    )
    everywhere(
        "mount -t tmpfs -o size=66m,mode=1777 tmpfs /tmp/local; head -c 10M /dev/zero >/tmp/local/x", "n1"
    )
    everywhere("ip link set ib0 down", "n2")
    everywhere("ip link del ib0", "n3")
    fabric = {"name": "infiniband", "interfaces": ["ib0", "ib1"]}
    alice.write("site.yaml", {**SITE, "storage": {"node_local": {"path": "/tmp/local"}}, "fabric": fabric})
    try:
        job = alice.submit(
            {"command": bash("echo here"), "resources": {**PLACE, "nodes": 1, "spare_nodes": 3}}
        )
        (run,) = alice.ended(job, within=120)
        log = alice.log(job)
        assert run["state"] == "completed", log
        assert "node n1: has 56 MiB free in /tmp/local, but the job needs 64 MiB" in log
        assert "node n2: its interface ib0 is down" in log
        assert "node n3: has no interface ib0, but others have" in log
        assert "no node has the interface ib1 that the profile names" in log
        assert alice.hosts(job) == ["n4"]
    finally:
        everywhere("umount /tmp/local", "n1")
        everywhere("ip link del ib0", "n1", "n2", "n4")


def test_too_few_good_nodes_end_the_job_and_why_says_so(alice):
    alice.write("site.yaml", {**SITE, "node_checks": ["[[ $(uname -n) == n1* ]] || { echo dark; false; }"]})
    job = alice.submit({"command": bash("echo trained"), "resources": PLACE})
    (run,) = alice.ended(job)
    assert run["state"] == "node failed", alice.log(job)
    (answer,) = json.loads(alice.dlrun("why", job, "--json").stdout)["why"]
    assert answer["cause"] == "node"
    assert "only 1 of 3 nodes are good" in answer["means"]
    assert not (alice.job_dir(job) / "logs" / "rank-0.log").exists()


def test_a_node_that_dies_is_replaced_in_the_same_allocation(alice, cluster):
    job = alice.submit(
        {
            "command": ["python3", "steps.py", "60", "0.5", "{{ run_dir }}/checkpoint-{{ rank }}"],
            "resources": PLACE,
            "checkpoint": {"before_end": "60s"},
        }
    )
    place = alice.job_dir(job)
    log = place / "logs" / "rank-1.log"
    await_true(lambda: log.exists() and "step 3\n" in log.read_text(), 90, "the training to begin")
    assert "has no checks of its own" in alice.log(job)
    used = (
        (place / "hosts").read_text().split()
    )  # on a busy machine a node can seem slow, and is the spare one
    victim = [host for host in used if host != "n1"][-1]
    cluster.kill_node(victim)
    try:
        (run,) = alice.ended(job, within=480)
        log = alice.log(job)
        assert run["state"] == "completed", log
        assert f"node {victim}: did not answer" in log
        assert "starting again on 2 of them" in log
        assert (place / "hosts").read_text().split() == [h for h in ("n1", "n2", "n3") if h != victim]
        runs = [line.split()[1] for line in alice.log(job, "rank-0").splitlines() if line.startswith("run ")]
        assert runs == ["0", "1"]
    finally:
        cluster.start_node(victim)


def unless_restarted(alice: User, job: str, hosts: list[str]) -> list[str]:
    """Nothing once the job has started again; until then what there is of it, in the queue and on these nodes."""
    if '"restarts": 1' in alice.dlrun("status", job, "--json").stdout:
        return []
    queue = alice.cluster.on("login", "squeue -o '%i %T %N %r'; sinfo -N -o '%N %T %E'", user="root").stdout
    seen = [
        alice.cluster.on(host, "pgrep -af 'first-node|rank.sh|job.sh'", user="root").stdout for host in hosts
    ]
    return [queue, *seen, alice.log(job)]


@pytest.mark.parametrize("requeue", cases([1, 0], quick=1))  # the other one of roles: test_role_nodes.py
def test_the_loss_of_the_first_node_ends_or_requeues_the_job(alice, cluster, requeue):
    """With --no-kill, Slurm lets a job live on that has lost the node of its script."""
    wait = "while [ ! -e {{ job_dir }}/go ]; do sleep 0.5; done; echo done"
    job = alice.submit(
        {
            "command": bash(wait),
            "resources": PLACE,
            **({"on_failure": {"requeue": requeue}} if requeue else {}),
        }
    )
    place = alice.job_dir(job)
    await_true((place / "logs/rank-1.log").exists, 90, "the training to begin")
    assert (place / ".watched").read_text() == "begun\n"
    first = json.loads((place / "state.json").read_text())["host"]
    others = [host for host in cluster.spec.nodes if host != first]
    cluster.kill_node(first)
    try:
        if requeue:
            await_none(lambda: unless_restarted(alice, job, others), 300, "the next start")
            (place / "go").touch()
            (run,) = alice.ended(job, 240)
            assert run["state"] == "completed", alice.log(job)
        else:
            (run,) = alice.ended(job, 300)
            assert run["state"] == "node failed", alice.log(job)
            assert f"{first}, on which job.sh ran, is lost" in alice.dlrun("why", job).stdout
        alice.left_nothing(job, others)
    finally:
        cluster.start_node(first)
