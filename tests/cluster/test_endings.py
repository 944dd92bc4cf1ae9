"""How jobs end and go on, on a real Slurm: told in time, put back, counted, every step done once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, cgroups, why_not
from tests.cluster.jobs import User, bash, whole

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]

SITE = {
    "name": "test-endings",
    "scheduler": {"type": "slurm", "version": "22.05", "memory": "none"},
    "launcher": {"name": "srun"},
    "partitions": {"debug": {"default": True, "max_walltime": "1m"}},
}
STEPS = (Path(__file__).parent.parent / "steps.py").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def cluster():
    spec = ClusterSpec(
        node_types=(NodeType(count=2),),
        accounting=True,
        cgroup=not cgroups.why_not(),
        slurm_conf=("KillWait=2", "OverTimeLimit=0"),
    )
    with Cluster(spec, name=f"endings-{os.getpid()}") as running:
        yield running


@pytest.fixture(scope="module")
def alice(cluster):
    user = User(cluster, SITE)
    user.write("steps.py", STEPS)
    return user


def test_why_names_the_cause_the_rank_and_the_node(alice, cluster):
    """Real failures, caused on purpose."""
    place = {"nodes": 2, "ranks_per_node": 1, "cpus_per_rank": 1, "walltime": "1m"}
    late = "import os, time; time.sleep(20 * (os.environ['RANK'] == '0')); import no_such_module"
    commands = {
        "missing-module": ["python3", "-c", late],
        "segmentation-fault": bash("((RANK == 0)) && sleep 20; kill -SEGV $$"),
        "command-missing": ["no-such-program"],
    }
    jobs = {cause: alice.submit({"command": words, "resources": place}) for cause, words in commands.items()}
    cancelled = alice.submit({"command": bash("sleep 600"), "resources": {**place, "nodes": 1}})
    alice.dlrun("cancel", cancelled)
    for job in (*jobs.values(), cancelled):
        alice.ended(job)
    assert {cause: alice.why(job)["cause"] for cause, job in jobs.items()} == {cause: cause for cause in jobs}
    first = alice.why(jobs["missing-module"])["first"]
    hosts = (alice.job_dir(jobs["missing-module"]) / "hosts").read_text().split()
    assert (first["rank"], first["host"]) == (1, hosts[1])
    assert alice.why(cancelled)["cause"] == "cancelled"
    shown = alice.dlrun("why", jobs["missing-module"]).stdout
    assert "last:  Traceback" in shown  # the evidence: at most three lines of the rank that failed first
    assert len(shown.splitlines()) <= 8


@pytest.mark.skipif(bool(cgroups.why_not()), reason=cgroups.why_not() or "")
def test_why_knows_when_memory_ran_out(alice):
    eat = "import time; x = bytearray(400 << 20); time.sleep(20)"
    job = alice.submit(
        {
            "command": ["python3", "-c", eat],
            "resources": {"nodes": 1, "cpus_per_rank": 1, "memory_per_node": "100MiB", "walltime": "1m"},
        }
    )
    assert alice.ended(job)[0]["state"] == "out of memory"
    assert alice.why(job)["cause"] == "memory"


STUCK = """\
import os, time

def reads_data():
    time.sleep(3600)

def waits_for_the_others():
    time.sleep(3600)

def there(rank):
    return os.environ["DLRUN_RUN_DIR"] + "/there-" + str(rank)

open(there(os.environ["RANK"]), "w").close()
while not all(os.path.exists(there(rank)) for rank in range(4)):
    print("waiting for slow ones, which is progress", flush=True)
    time.sleep(0.2)
reads_data() if os.environ["RANK"] == "3" else waits_for_the_others()
"""


def hung(alice, **environment) -> str:
    """A job on two nodes of which one rank is stuck and three wait for it, once it has ended by itself."""
    alice.write("stuck.py", STUCK)
    place = {"nodes": 2, "ranks_per_node": 2, "cpus_per_rank": 1, "walltime": "1m"}
    command = ["python3", str(alice.directory / "stuck.py")]
    site = {**SITE, "partitions": {"debug": {"default": True}}}
    alice.write("long.yaml", site)
    spec = {
        "command": command,
        "resources": {**place, "walltime": "10m"},
        "hang": "3s",
        "environment": environment,
    }
    job = alice.submit(spec, "--site", "long.yaml")
    assert alice.ended(job, within=240)[0]["state"] == "hang", alice.log(job)
    answer = alice.why(job)
    assert answer["cause"] == "hang", answer
    assert (
        answer["line"] == "rank 3 in reads_data (stuck.py:4); ranks 0-2 in waits_for_the_others (stuck.py:7)"
    )
    stacks = sorted(path.name for path in (alice.job_dir(job) / "stacks").iterdir())
    assert stacks == [".dlrun", *(f"rank-{rank}.txt" for rank in range(4))]
    alice.left_nothing(job, ("n1", "n2"))
    return job


def test_one_rank_that_is_stuck_ends_the_job_with_the_stacks_of_all(alice):
    """Without py-spy: each rank's Python writes its own, when it is sent SIGABRT."""
    job = hung(alice, variables={"PATH": "/usr/bin:/bin"})
    assert "Fatal Python error: Aborted" in alice.log(job, "rank-0")


@pytest.fixture
def spy(alice, cluster):
    """A venv with py-spy, for the test alone, on the shared file system."""
    place = cluster.shared / "scratch" / "spy"
    made = subprocess.run([sys.executable, "-m", "venv", place], capture_output=True, text=True, check=False)
    line = [place / "bin/pip", "install", "-q", "--timeout", "10", "--retries", "1", "py-spy"]
    if made.returncode or subprocess.run(line, capture_output=True, check=False, timeout=300).returncode:
        pytest.skip("py-spy cannot be installed")
    asleep = f"{place}/bin/python -c 'import time; time.sleep(60)' >/dev/null 2>&1 & sleep 2"
    look = f"{asleep}; {place}/bin/py-spy dump --pid $!; code=$?; kill $!; exit $code"
    if cluster.on("n1", look, user="alice").returncode:
        pytest.skip("py-spy may not look into processes here")
    yield place
    shutil.rmtree(place)


def test_py_spy_shows_where_ranks_are_stuck_without_ending_them(alice, spy):
    job = hung(alice, venv=str(spy))
    stacks = (alice.job_dir(job) / "stacks" / "rank-3.txt").read_text()
    assert "rank 3 on n2" in stacks
    assert "reads_data (stuck.py:4)" in stacks or "/stuck.py:4)" in stacks
    assert "Fatal Python error" not in alice.log(job, "rank-3")


def test_a_second_requeue_during_the_first_counts_once(alice, cluster):
    """The program ends for nobody, so that the first takes its time."""
    counts = "trap '' TERM; echo \"run $DLRUN_RESTART\"; ((DLRUN_RESTART)) || while :; do sleep 1; done"
    place = {"nodes": 2, "ranks_per_node": 1, "cpus_per_rank": 1, "walltime": "1m"}
    job = alice.submit({"command": bash(counts), "resources": place, "on_failure": {"requeue": 2}})
    alice.begun(job, 1)
    twice = f"scontrol requeue {job} && scontrol requeue {job}"
    done = cluster.on("login", twice, user="alice")
    assert alice.ended(job, within=120)[0]["state"] == "completed", done.stderr + alice.log(job)
    runs = [line for line in alice.log(job, "rank-0").splitlines() if line.startswith("run ")]
    assert runs == ["run 0", "run 1"]
    assert alice.state(job)[0]["restarts"] == 1
    alice.left_nothing(job, ("n1", "n2"))


def test_a_training_longer_than_its_walltime_goes_on_until_it_is_done(alice):
    """Two minutes of steps where a minute is all that the partition allows: every step once, in order.

    A run has time for 50 steps at most, and fewer where it starts slowly.
    """
    job = alice.submit(
        {
            "command": ["python3", "steps.py", "110", "1", "{{ run_dir }}/checkpoint"],
            "resources": {"nodes": 1, "ranks_per_node": 1, "walltime": "8m"},
            "checkpoint": {"before_end": "10s", "path": "{{ run_dir }}/checkpoint"},
            "chain": True,
        }
    )
    (run,) = alice.ended(job, within=900)
    place = alice.job_dir(job)
    log = (place / "logs" / "rank-0.log").read_text()
    assert run["state"] == "completed", log + (place / "logs" / "job.log").read_text()
    words = [line.split() for line in log.splitlines()]
    assert [int(w[1]) for w in words if w[0] == "step"] == list(range(1, 111))
    starts = [w for w in words if w[0] == "run"]
    count = len(starts)
    assert count >= 3
    assert [int(w[1]) for w in starts] == list(range(count))
    assert len({w[2] for w in starts}) == count, "a rendezvous id of its own for each run"
    assert len({w[3] for w in starts}) > 1, "and a port"
    assert {w[4] for w in starts} == {place.name}, "one W&B run"
    told = [w[1:] for w in words if w[0] == "told"]
    assert told == [["1", "loader", "alive"]] * (count - 1) + [["0", "loader", "alive"]]
    assert float(words[-1][1]) == whole(110)
    assert (place / "logs" / "job.log").read_text().count("another follows") == count - 1
