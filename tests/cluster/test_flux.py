"""dlrun on a real Flux where one is installed: in an instance of the user's own, and as a guest of the system's.

Elsewhere each test is skipped by name.
"""

from __future__ import annotations

import os
import re
import time

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, flux, why_no_flux, why_not
from tests.cluster.hosts import await_true
from tests.cluster.jobs import PYTHON, User, bash
from tests.meeting import ALL_HERE

_WHY_NOT = why_not() or why_no_flux()
pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(_WHY_NOT), reason=_WHY_NOT)]

SITE = {
    "name": "test-flux",
    "scheduler": {"type": "flux", "exclusive": True, "gpus": "none"},
    "launcher": {"name": "flux"},
    "partitions": {"work": {"default": True, "node_type": "n"}},
    "node_types": {"n": {"topology": {"packages": 2, "cores": 4}}},
    "fabric": {"name": "ethernet", "interfaces": ["eth0"]},
}


OWNERS = {"user": ("alice", "bob"), "system": (flux.OWNER, "alice")}
"""Users of each kind of instance; the first is its owner, who is its administrator."""


@pytest.fixture(scope="module", params=OWNERS)
def cluster(request):
    spec = ClusterSpec(
        scheduler="flux",
        users=OWNERS[request.param],
        node_types=(NodeType(count=3),),
        partitions=(
            Partition(name="work", default=True, max_time="1-00:00:00"),
            Partition(name="short", max_time="00:10:00"),
        ),
        sshd=True,
    )
    with Cluster(spec, name=f"flux-{request.param}-{os.getpid()}") as running:
        yield running


@pytest.fixture(scope="module")
def alice(cluster):
    return User(cluster, SITE)


def administer(cluster, line):
    """Run a command as the owner of the instance."""
    cluster.on("login", line, user=cluster.spec.users[0], check=True)


def resources(**more):
    return {"ranks_per_node": 1, "walltime": "5m", **more}


def test_from_submit_to_the_last_log_line(alice):
    command = bash(
        f'echo "rank $RANK of $WORLD_SIZE on $(hostname) in $PWD"; {ALL_HERE}; exit $((RANK == 1 ? 7 : 0))'
    )
    path = alice.write("hello.yaml", {"name": "hello", "framework": "torch", "command": command,
                                      "resources": resources(nodes=2)})  # fmt: skip
    done = alice.dlrun("submit", str(path), "--wait", code=7)
    assert re.search(rf"rank 0 of 2 on n[1-3] in {re.escape(str(alice.directory))}", done.stdout)
    assert re.search(r"first failure: rank 1 on n[1-3] ended with exit code 7", done.stdout)


def test_each_way_to_end_is_reported_as_what_it_was(alice, cluster):
    jobs = {
        "completed": alice.submit({"command": bash("true"), "resources": resources()}),
        "failed": alice.submit({"command": bash("exit 3"), "resources": resources()}),
        "timed out": alice.submit({"command": bash("sleep 600"), "resources": resources(walltime="8s")}),
    }
    cancelled = alice.submit({"command": bash("sleep 600"), "resources": resources()})
    alice.running(cancelled)
    alice.dlrun("cancel", cancelled)
    jobs["cancelled"] = cancelled
    states = {wanted: alice.ended(job, within=120)[0] for wanted, job in jobs.items()}
    assert {wanted: run["state"] for wanted, run in states.items()} == {wanted: wanted for wanted in jobs}
    assert states["failed"]["exit_code"] == 3
    for job in jobs.values():
        alice.left_nothing(job, cluster.spec.nodes)


def test_each_rank_has_its_own_cores(alice):
    job = alice.submit({"command": [str(PYTHON / "python"), "-c", "import os; print(sorted(os.sched_getaffinity(0)))"],
                        "resources": resources(nodes=2, ranks_per_node=2)})  # fmt: skip
    assert alice.ended(job)[0]["state"] == "completed"
    masks = [alice.log(job, f"rank-{rank}").strip().splitlines()[-1] for rank in range(4)]
    assert masks == ["[0, 1, 2, 3]", "[4, 5, 6, 7]"] * 2


def test_a_daemon_of_a_rank_does_not_keep_the_job(alice, cluster):
    # PMI works, and the daemon has its descriptor but nothing of the environment by which processes of a rank are found.
    daemon = "setsid -f env -i sleep 4242"
    job = alice.submit({"command": bash(f"flux pmi --method=simple barrier && {daemon}"),
                        "resources": resources(nodes=2, ranks_per_node=2)})  # fmt: skip
    assert alice.ended(job)[0]["state"] == "completed", alice.log(job, "rank-0")
    for node in cluster.spec.nodes:
        assert cluster.on(node, "pgrep -fx 'sleep 4242'", user="alice").stdout == ""


def test_points_of_a_sweep_are_jobs_two_at_a_time(alice):
    job = alice.submit({"command": bash("echo $0; sleep 2"), "resources": resources(),
                        "sweep": {"at_once": 2, "grid": {"x": [5, 6, 7]}}})  # fmt: skip
    assert job.count(",") == 2
    waits = alice.state(job)[2]
    assert waits["state"] in ("pending", "running")
    runs = alice.ended(job)
    assert [run["state"] for run in runs] == ["completed"] * 3
    assert runs[2]["started"] >= runs[0]["ended"]
    assert sorted(path.name for path in (alice.job_dir(job) / "points").iterdir()) == ["0", "1", "2"]


def test_points_are_submitted_from_one_request(alice, cluster):
    # With the word in it that marks the index in the request, and held: neither is part of the other.
    job = alice.submit({"command": bash("echo {{ x }} @dlrun-before@ $DLRUN_POINT"), "resources": resources(), "hold": True,
                        "name": "it's five", "sweep": {"grid": {"x": [7, 8, 9]}}})  # fmt: skip
    assert [run["state"] for run in alice.state(job)] == ["held"] * 3
    shown = cluster.on("login", ["flux", "jobs", "-no", "{name}", *job.split(",")], user="alice")
    assert shown.stdout.splitlines() == ["it's five"] * 3
    alice.dlrun("release", job)
    assert [run["state"] for run in alice.ended(job)] == ["completed"] * 3
    for point, x in enumerate((7, 8, 9)):
        assert (
            f"{x} @dlrun-before@ {point}"
            in (alice.job_dir(job) / f"points/{point}/logs/rank-0.log").read_text()
        )


def test_a_held_job_waits_until_it_is_released(alice):
    job = alice.submit({"command": bash("true"), "resources": resources(), "hold": True})
    assert alice.state(job)[0]["state"] == "held"
    alice.dlrun("release", job)
    assert alice.ended(job)[0]["state"] == "completed"


def test_a_dependency_that_can_never_be_met(alice):
    first = alice.submit({"command": bash("sleep 3; exit 1"), "resources": resources()})
    second = alice.submit(
        {"command": bash("true"), "resources": resources(), "after": [{"job": first, "when": "ok"}]}
    )
    (run,) = alice.ended(second)
    assert (run["state"], run["reason"]) == ("cancelled", "a dependency can never be met")


def test_ranks_are_warned_and_the_job_goes_on_in_another(alice):
    script = 'trap "echo saved; exit 0" USR1; echo begun; while :; do sleep 0.2; done'
    job = alice.submit({
        "command": bash(script), "resources": resources(nodes=2, walltime="30s"),
        "checkpoint": {"signal": "USR1", "before_end": "18s"}, "on_failure": {"requeue": 1},
    })  # fmt: skip
    place = alice.job_dir(job)
    deadline = time.monotonic() + 150
    while (
        "no other follows" not in (place / "logs/job.log").read_text()
        if (place / "logs/job.log").exists()
        else True
    ):
        assert time.monotonic() < deadline
        time.sleep(1)
    for rank in range(2):
        assert (place / f"logs/rank-{rank}.log").read_text().count("saved") == 2
    assert "run 1 of at most 2 ends (timed out); another follows" in (place / "logs/job.log").read_text()


def test_refusals_name_the_way_out(alice):
    for given, word in (
        ({"partition": "short", "walltime": "1h"}, "walltime"),
        ({"partition": "nosuch"}, "queue"),
    ):
        site = {**SITE, "partitions": {name: {"node_type": "n"} for name in ("work", "short", "nosuch")}}
        alice.write("wide.yaml", site)
        path = alice.write("refused.yaml", {"name": "refused", "command": bash("true"), "framework": "torch",
                                            "resources": resources(**given)})  # fmt: skip
        done = alice.dlrun("submit", str(path), "--site", "./wide.yaml", code=None)
        assert done.returncode != 0
        assert word in done.stderr


def test_a_node_that_dies_is_named(alice, cluster):
    job = alice.submit({"command": bash("sleep 600"), "resources": resources(nodes=2)})
    alice.running(job)
    hosts = alice.hosts(job)
    time.sleep(3)
    cluster.kill_node(hosts[1])
    try:
        runs = alice.ended(job, within=90)
        assert runs[0]["state"] in ("node failed", "failed")
        answer = alice.why(job)
        assert hosts[1] in str(answer)
        assert "node" in answer["cause"]
    finally:
        cluster.start_node(hosts[1])


@pytest.fixture
def part(cluster):
    """Cut the network between two nodes, as a function; each still reaches the login host."""
    cut = []

    def between(one, other):
        for here, there in ((one, other), (other, one)):
            route = f"unreachable {cluster.spec.address(there)}/32"
            cluster.on(here, f"ip route add {route}", user="root", check=True)
            cut.append((here, route))

    yield between
    for node, route in cut:
        cluster.on(node, f"ip route del {route}", user="root", check=True)


@pytest.mark.parametrize("spare", [0, 1])
def test_nodes_without_a_network_between_them_are_named_before_the_ranks_start(alice, cluster, part, spare):
    part("n1", "n2")
    begun = {"command": bash("echo begun; hostname"), "resources": resources(nodes=2, spare_nodes=spare)}
    if not spare:
        begun["resources"]["hosts"] = ["n1", "n2"]
    job = alice.submit(begun)
    alice.ended(job, within=240)
    if spare:
        assert "begun" in alice.log(job, "rank-1")
        assert "ended with exit code 0" in alice.log(
            job
        )  # of Flux the job has the exit code of the broker on n2
        assert "n2: no connection" in alice.why(job)["means"]
    else:
        assert "n2: no connection to the broker on n1" in alice.log(job)
        assert alice.why(job)["cause"] == "node"
        assert "n2" in str(alice.why(job))
    alice.left_nothing(job, cluster.spec.nodes)


def test_a_job_whose_nodes_lose_their_network_ends(alice, cluster, part):
    job = alice.submit({"command": bash("echo begun; sleep 600"), "resources": resources(nodes=2)})
    await_true(lambda: "begun" in alice.log(job, "rank-1"), 60, "the second rank")
    hosts = alice.hosts(job)
    part(*hosts)
    cluster.on(hosts[1], "pkill -KILL -u alice -x sleep", user="root", check=True)
    alice.ended(job, within=150)
    assert alice.why(job)["cause"] in ("killed", "node")
    alice.left_nothing(job, cluster.spec.nodes)


@pytest.mark.parametrize(
    ("way", "cause", "means"),
    [
        (
            'flux job raise --type=admin --severity=0 -m "file server down" {}',
            "cancelled",
            "file server down",
        ),
        ("flux cancel -m maintenance {}", "cancelled", "maintenance"),
        ("flux job kill -s TERM {}", "terminated", "no record of a cancellation"),
        ("flux job kill -s USR1 {}", "user-signal", "SIGUSR1 ended this script"),
    ],
)
def test_who_ended_it_is_known_from_the_event_log(alice, cluster, way, cause, means):
    job = alice.submit({"command": bash("echo begun; sleep 600"), "resources": resources(nodes=2)})
    alice.running(job)
    await_true(lambda: "begun" in alice.log(job, "rank-1"), 60, "the second rank")
    administer(cluster, way.format(job))
    alice.ended(job)
    found = alice.why(job)
    if cause == "cancelled" and cluster.spec.users[0] != "alice":
        cause = "cancelled-by-admin"
        assert f"another user ({flux.OWNER})" in found["means"]
    assert found["cause"] == cause
    assert means in found["means"]


@pytest.mark.parametrize(
    ("pattern", "cause"), [("-x flux-shell", "terminated"), ("flux-broker", "node"), (".", "node")]
)
def test_what_is_asked_to_end_on_one_node_is_not_the_ranks_fault(alice, cluster, pattern, cause):
    job = alice.submit({"command": bash("echo begun; sleep 600"), "resources": resources(nodes=2)})
    alice.running(job)
    await_true(lambda: "begun" in alice.log(job, "rank-1"), 60, "the second rank")
    host = alice.hosts(job)[1]
    of_job = f"for p in $(pgrep -u alice {pattern}); do if grep -qz ^FLUX_JOB_ID= /proc/$p/environ; then echo $p; fi; done"
    cluster.on(host, f"kill -TERM $({of_job})", user="root", check=True)
    alice.ended(job)
    found = alice.why(job)
    assert found["cause"] == cause, (found["means"], alice.log(job))
    assert host in found["means"]
    alice.left_nothing(job, cluster.spec.nodes)


def test_a_shutdown_of_flux_is_told_as_one(alice, cluster):
    job = alice.submit({"command": bash("echo begun; sleep 600"), "resources": resources(nodes=2)})
    alice.running(job)
    await_true(lambda: "begun" in alice.log(job, "rank-1"), 60, "the second rank")
    administer(cluster, "flux shutdown --quiet")
    alice.left_nothing(job, cluster.spec.nodes)
    flux.start_server(cluster)
    for node in cluster.spec.nodes:
        flux.start_node(cluster, node)
    flux.await_ready(cluster)
    assert alice.state(job)[0]["state"] == "cancelled"
    own = cluster.spec.users[0] == "alice"  # guests may not read the instance's own event log
    shut = "its instance of Flux shut down" if own else f"it was cancelled by another user ({flux.OWNER})"
    assert shut in alice.why(job)["means"]


def test_a_name_with_quotes_and_an_id_as_flux_prints_it(alice):
    first = alice.submit({"name": """it's "5" \\ now""", "command": bash("true"), "resources": resources()})
    printed = f"ƒ{first[1:]}"
    second = alice.submit({"command": bash("true"), "resources": resources(), "after": [printed]})
    assert [alice.ended(job)[0]["state"] for job in (first, second)] == ["completed"] * 2


def inside(alice, cluster):
    """A job in an instance of a job: the ids of both."""
    own = {key: value for key, value in SITE.items() if key not in ("partitions", "node_types")}
    alice.write("inner-site.yaml", own)
    spec = {"name": "inner", "framework": "torch", "command": bash("echo begun; sleep 600"),
            "resources": resources(nodes=2)}  # fmt: skip
    path = alice.write("inner.yaml", spec)
    submit = f"dlrun submit {path} --site {alice.directory}/inner-site.yaml --parsable"
    alice.write(
        "outer.sh",
        f"#!/bin/bash\nPATH={PYTHON}:$PATH {submit} >inner.id.new\nmv inner.id.new inner.id\nsleep 600\n",
    )
    answer = alice.directory / "inner.id"
    answer.unlink(missing_ok=True)
    line = f"cd {alice.directory} && flux batch -N2 -x -t 10m --output=outer.log outer.sh"
    outer = cluster.on("login", line, user="alice", check=True).stdout.strip()
    await_true(answer.exists, 60, "the inner job to be submitted")
    job = answer.read_text().strip()
    await_true(
        lambda: alice.state(job)[0]["state"] == "running" and "begun" in alice.log(job, "rank-1"),
        60,
        "its ranks",
    )
    return outer, job


def test_a_job_of_an_instance_inside_a_job_is_reached_through_that(alice, cluster):
    outer, job = inside(alice, cluster)
    alice.dlrun("cancel", job)
    assert alice.ended(job)[0]["state"] == "cancelled"
    assert alice.why(job)["means"] == "it was cancelled by its user"
    cluster.on("login", f"flux cancel {outer}", user="alice", check=True)
    alice.left_nothing(job, cluster.spec.nodes)


def test_the_end_of_the_job_around_a_job_is_its_cause(alice, cluster):
    outer, job = inside(alice, cluster)
    cluster.on("login", f"flux cancel -m maintenance {outer}", user="alice", check=True)
    assert alice.ended(job)[0]["state"] in ("failed", "cancelled")
    alice.left_nothing(job, cluster.spec.nodes)
    found = alice.why(job)
    assert "in which it ran, was cancelled by its user: maintenance" in found["means"]


@pytest.fixture
def paused(cluster):
    """Until the test ends, the broker that users reach answers nobody."""
    broker = "$(pgrep flux-broker)"
    cluster.on("login", f"kill -STOP {broker}", user="root", check=True)
    yield
    cluster.on("login", f"kill -CONT {broker}", user="root", check=True)


@pytest.mark.slow
@pytest.mark.usefixtures("paused")
def test_a_broker_that_never_answers_is_given_up_and_named(alice):
    spec = {"name": "paused", "framework": "torch", "command": bash("true"), "resources": resources()}
    path = str(alice.write("paused.yaml", spec))
    for words in (("submit", path, "--check"), ("submit", path)):
        done = alice.dlrun(*words, code=None)
        assert done.returncode != 0
        assert "flux does not answer here; nothing was done" in done.stderr


@pytest.fixture
def closed(cluster):
    """Commands that close a part of the cluster, which is open again afterwards."""
    yield lambda line: administer(cluster, line)
    again = "flux queue start --all --quiet; flux queue enable --all --quiet"
    again += "; for n in n1 n2 n3; do flux resource undrain $n; done"
    cluster.on("login", again, user=cluster.spec.users[0])


@pytest.mark.parametrize(
    ("close", "given", "reason"),
    [
        ("flux queue stop -m dinner work", {}, "queue work is stopped: dinner"),
        ("flux resource drain n2 memory", {"hosts": ["n2"]}, "n2 is drained: memory"),
        ("flux resource drain n1 memory", {"nodes": 3}, "n1 is drained: memory"),
    ],
)
def test_a_job_that_cannot_start_now_says_why(alice, cluster, closed, close, given, reason):
    closed(close)
    spec = {"name": "waits", "framework": "torch", "command": bash("true"), "resources": resources(**given)}
    before = alice.dlrun("submit", str(alice.write("waits.yaml", spec)), "--check")
    assert reason.rpartition(": ")[2] in before.stdout
    job = alice.submit(spec)
    fluxion = "sched-fluxion" in cluster.on("login", "flux module list", user=cluster.spec.users[0]).stdout
    if fluxion and given.get("nodes") == 3:  # it refuses what would have to wait for a drained node
        assert "unsatisfiable" in alice.ended(job)[0]["reason"]
        assert "`flux resource status` shows drained ones" in alice.why(job)["next"]
        return
    await_true(lambda: reason in str(alice.state(job)[0]["reason"]), 20, "the reason")
    found = alice.why(job)
    assert reason in found["means"]
    assert "ask the centre" in found["next"]
    alice.dlrun("cancel", job)


def test_a_queue_that_takes_no_jobs(alice, closed):
    closed("flux queue disable -m dinner short")
    spec = {
        "name": "refused",
        "framework": "torch",
        "command": bash("true"),
        "resources": resources(partition="short"),
    }
    alice.write("wide.yaml", {**SITE, "partitions": {name: {"node_type": "n"} for name in ("work", "short")}})
    path = alice.write("refused.yaml", spec)
    for words in ((), ("--check",)):
        done = alice.dlrun("submit", str(path), "--site", "./wide.yaml", *words, code=None)
        assert done.returncode != 0
        assert "submission to short is disabled: dinner" in done.stderr
        assert "resources.partition" in done.stderr
