"""Each node does its own part of the end: nothing of a job stays on a node, whatever goes first; results arrive or are named."""

from __future__ import annotations

import os

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, why_no_flux, why_no_pbs, why_not
from tests.cluster.hosts import await_true
from tests.cluster.jobs import User, bash
from tests.cluster.staged import await_standbys, files, leaving_much, names

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(why_not()), reason=why_not())]

NODES = 3
WHY_NO = {"slurm": lambda: "", "flux": why_no_flux, "pbs": why_no_pbs}
SITES = {
    "slurm": {"scheduler": {"type": "slurm"}, "launcher": {"name": "srun"}},
    "flux": {
        "scheduler": {"type": "flux", "exclusive": True, "gpus": "none"},
        "launcher": {"name": "flux"},
        "partitions": {"work": {"default": True, "node_type": "n"}},
        "node_types": {"n": {"topology": {"packages": 2, "cores": 4}}},
    },
    "pbs": {
        "scheduler": {"type": "openpbs", "gpus": "none"},
        "launcher": {"name": "ssh"},
        "partitions": {"work": {"default": True, "node_type": "n"}},
        "node_types": {"n": {"topology": {"packages": 2, "cores": 4}}},
    },
}


@pytest.fixture(scope="module", params=SITES)
def alice(request):
    if reason := WHY_NO[request.param]():
        pytest.skip(reason)
    more = {"slurm_conf": ("KillWait=15",)} if request.param == "slurm" else {}
    spec = ClusterSpec(
        scheduler=request.param,
        node_types=(NodeType(count=NODES),),
        partitions=(Partition(name="work", default=True, max_time="1-00:00:00"),),
        sshd=True,
        **more,
    )
    site = {
        "name": f"test-standby-{request.param}",
        "storage": {"node_local": {"path": "/tmp", "size": "10GB"}},
        "fabric": {"name": "ethernet", "interfaces": ["eth0"]},
        **SITES[request.param],
    }
    with Cluster(spec, name=f"standby-{request.param}-{os.getpid()}") as running:
        yield User(running, site)


def start(alice, walltime: str = "10m") -> str:
    """A job on all nodes with its data there, whose ranks have each written a result and run on; its id."""
    job = alice.submit(leaving_much(alice, alice.directory / "results", NODES, walltime))
    await_standbys(alice, job, NODES)
    return job


def ended_well(alice, job: str) -> None:
    """No process, no data and no result of the job is on any node; results are there, or missing by name."""
    alice.ended(job, within=120)
    alice.left_nothing(job, alice.cluster.spec.nodes)
    log = alice.log(job)
    for rank, node in enumerate(alice.hosts(job)):
        brought = alice.directory / "results" / f"rank-{rank}"
        assert (
            brought.exists() or node in log.partition("no word yet of the results on:")[2].partition(";")[0]
        ), (rank, log)
        assert not [name for name in names(alice, node) if name.startswith((".results", "set"))], (node, log)
        if brought.exists():
            assert brought.read_text() == "12345"
            brought.unlink()


def scheduler_of(alice) -> str:
    return alice.cluster.spec.scheduler


def test_a_cancelled_job(alice):
    job = start(alice)
    alice.dlrun("cancel", job)
    ended_well(alice, job)


def test_the_end_of_the_walltime(alice):
    job = start(alice, walltime="1m" if scheduler_of(alice) == "slurm" else "40s")
    ended_well(alice, job)


DAEMONS = {"slurm": "-f '^slurmstepd: .{job}[.][0-9]'", "flux": "-x flux-shell", "pbs": "-u alice -x sshd"}


@pytest.mark.parametrize("first", range(2))
def test_what_has_started_the_ranks_of_one_node_is_killed(alice, first):
    job = start(alice)
    host = alice.hosts(job)[first]
    pattern = DAEMONS[scheduler_of(alice)].format(job=job)
    alice.cluster.on(host, f"kill -9 $(pgrep {pattern})", user="root", check=True)
    ended_well(alice, job)


BROKER = (
    "$(for p in $(pgrep flux-broker); do if grep -qz ^FLUX_JOB_ID= /proc/$p/environ; then echo $p; fi; done)"
)
"""Of the job, on a node; that of the system has no job."""


@pytest.mark.parametrize("alice", ["flux"], indirect=True)
@pytest.mark.parametrize("signal", ["KILL", "TERM"])
def test_the_first_broker_of_the_job_is_ended(alice, signal):
    """SIGKILL leaves those of the other nodes, and Flux's job, as they are; SIGTERM is as `flux shutdown JOB`."""
    job = start(alice)
    alice.cluster.on(alice.hosts(job)[0], f"kill -{signal} {BROKER}", user="root", check=True)
    ended_well(alice, job)


@pytest.mark.parametrize("alice", ["flux"], indirect=True)
def test_flux_is_slow_to_see_that_the_first_broker_was_killed(alice):
    """The script ends while the broker is still among the processes."""
    job = start(alice)
    slow = 'of=$(ps -o ppid= -p "$broker"); kill -STOP $of; kill -KILL $broker; sleep 4; kill -CONT $of'
    alice.cluster.on(alice.hosts(job)[0], f"broker={BROKER}; {slow}", user="root", check=True)
    ended_well(alice, job)


@pytest.mark.parametrize("alice", ["flux"], indirect=True)
def test_a_job_that_flux_kills(alice):
    job = start(alice)
    alice.cluster.on("login", f"flux job kill -s KILL {job}", user="alice", check=True)
    ended_well(alice, job)


def brokers_left(alice, node: str) -> list[str]:
    """The directories of brokers on a node whose job is over, or whose broker was killed."""
    shown = alice.cluster.on(node, "ls -d /tmp/flux-??????/", user="alice").stdout.split()
    listening = alice.cluster.on(node, ["cat", "/proc/net/unix"], user="alice").stdout
    return [place for place in shown if f" {place}local-" not in listening]


@pytest.mark.parametrize("alice", ["flux"], indirect=True)
def test_what_killed_brokers_leave_goes_at_the_end_or_with_the_next_job(alice):
    job = start(alice)
    of_job = "$(for p in $(pgrep flux-broker); do if grep -qz ^FLUX_JOB_ID= /proc/$p/environ; then echo $p; fi; done)"
    hosts = alice.hosts(job)
    mine = "/tmp/flux-Mine00/"
    alice.cluster.on(hosts[1], ["mkdir", "-m", "700", mine], user="alice", check=True)
    for host in hosts[1:]:
        alice.cluster.on(
            host, f"kill -9 {of_job} $(pgrep -u alice -f '[r]ank.sh|[s]tandby.sh')", user="root", check=True
        )
    ended_well(alice, job)
    following = start(alice)
    for host in hosts:
        await_true(
            lambda on=host: brokers_left(alice, on) == [mine] * (on == hosts[1]), 60, f"{host} to be tidied"
        )
    alice.cluster.on(hosts[0], f"kill -9 {of_job}", user="root", check=True)
    ended_well(alice, following)
    await_true(lambda: brokers_left(alice, hosts[0]) == [], 60, "the first node to be tidied")
    alice.cluster.on(hosts[1], ["rmdir", mine], user="alice", check=True)


KEEPS = "ps -u alice -o pid=,sid=,args= | awk '/[s]tage.sh keep$/ && {} {{print $1}}'"
"""Prints the processes that keep a node's data: the standby, which leads a session, and the task that has started it."""


def without_standby(alice, which, end="flux cancel"):
    """A job that was ended after what keeps its data was killed on its last node, and that node; which: for `KEEPS`."""
    job = start(alice)
    last = alice.hosts(job)[-1]
    alice.cluster.on(last, f"kill -9 $({KEEPS.format(which)})", user="root", check=True)
    alice.cluster.on("login", f"{end} {job}", user="alice", check=True)
    return job, last


@pytest.mark.parametrize("alice", ["flux"], indirect=True)
def test_a_standby_that_is_killed_before_the_cancel(alice):
    job, _ = without_standby(alice, "$1 == $2")
    ended_well(alice, job)


@pytest.mark.parametrize("alice", ["flux"], indirect=True)
@pytest.mark.parametrize("end", ["flux cancel", "flux job kill -s KILL"])
def test_what_a_standby_leaves_that_is_killed_with_its_task_goes_to_the_next_job(alice, end):
    """With SIGKILL the job's script has not recorded an end, either."""
    job, last = without_standby(alice, "1", end)
    alice.ended(job)
    alice.left_nothing(job, alice.cluster.spec.nodes)
    if end == "flux cancel":
        log = alice.log(job)
        assert last in log.partition("no word yet of the results on:")[2].partition(";")[0], log
    assert "set" in names(alice, last)
    following = alice.submit(
        {
            "command": bash('ls "$DLRUN_STAGE"/set/data | wc -l'),
            "data": {"set": {"source": str(files(alice, 7)), "strategy": "copy"}},
            "resources": {"nodes": NODES, "ranks_per_node": 1, "walltime": "5m"},
        }
    )
    assert alice.ended(following)[0]["state"] == "completed", alice.log(following)
    assert alice.log(following, f"rank-{NODES - 1}").split() == ["7"]


@pytest.mark.parametrize("alice", ["flux"], indirect=True)
def test_ranks_on_all_cores_start_beside_the_standby_and_end_without_a_word_of_it(alice):
    script = 'until test -e "$DLRUN_RUN_DIR/go"; do sleep 0.2; done; echo 1 >"$0/all-$DLRUN_RANK"'
    job = alice.submit(
        {
            "command": [*bash(f': >"$DLRUN_RUN_DIR/written-$DLRUN_RANK"; {script}'), "{{ results }}"],
            "data": {"set": {"source": str(files(alice)), "strategy": "copy", "keep": "job"}},
            "results": {"to": str(alice.directory / "all"), "before_end": "10s"},
            "resources": {"nodes": NODES, "ranks_per_node": 8, "walltime": "5m"},
        }
    )
    place = alice.job_dir(job)
    await_true(lambda: len(list(place.glob("written-*"))) == 8 * NODES, 60, "all ranks to write")
    waits = "pgrep -u alice -fc '/stage.sh keep$'"
    for node in alice.hosts(job):
        await_true(lambda on=node: alice.cluster.on(on, waits).returncode == 0, 60, "the standby to wait")
    (place / "go").touch()
    assert alice.ended(job)[0]["state"] == "completed"
    assert len(list((alice.directory / "all").iterdir())) == 8 * NODES
    assert "exception" not in alice.log(job)
    assert "flux-job" not in alice.log(job)


@pytest.mark.parametrize("alice", ["slurm"], indirect=True)
def test_a_launcher_that_is_killed_with_a_rank(alice):
    """As the kernel may, for memory: Slurm lets the other ranks run on, and no other step can start beside them."""
    job = start(alice)
    alice.cluster.on(alice.hosts(job)[0], "kill -9 $(pgrep -u alice -f '/rank.sh')", user="root", check=True)
    ended_well(alice, job)


@pytest.mark.parametrize("alice", ["slurm"], indirect=True)
def test_somebody_sends_a_signal_to_all_steps(alice):
    """It ends the job's script and the ranks; the step that waits for the end goes on, and leaves the copy to the script."""
    job = start(alice)
    alice.cluster.on("login", f"scancel --full --signal=USR1 {job}", user="root", check=True)
    ended_well(alice, job)
    assert "results were copied" not in alice.log(job)
    assert alice.why(job)["cause"] == "user-signal"


@pytest.mark.parametrize("alice", ["pbs"], indirect=True)
@pytest.mark.parametrize("signal", ["KILL", "TERM"])
def test_the_jobs_shell_is_ended(alice, signal):
    """By whoever: SIGKILL leaves it no part in the end."""
    job = start(alice)
    script = "pgrep -u alice -f 'mom_priv/jobs/.*[.]SC$'"
    alice.cluster.on(alice.hosts(job)[0], f"kill -{signal} $({script})", user="root", check=True)
    ended_well(alice, job)
