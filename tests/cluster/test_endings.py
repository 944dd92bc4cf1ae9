"""How jobs end and go on, on a real Slurm: told in time, put back, counted, every step done once."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, cgroups, why_not
from tests.cluster.jobs import User, bash

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
        slurm_conf=("SlurmdTimeout=2", "MessageTimeout=2", "KillWait=2", "OverTimeLimit=0"),
    )
    with Cluster(spec, name=f"endings-{os.getpid()}") as running:
        yield running


@pytest.fixture(scope="module")
def alice(cluster):
    user = User(cluster, SITE)
    user.write("steps.py", STEPS)
    return user


def why(alice, job: str) -> dict:
    (answer,) = json.loads(alice.dlrun("why", job, "--json").stdout)["why"]
    return answer


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
        alice.ended(job, within=90)
    assert {cause: why(alice, job)["cause"] for cause, job in jobs.items()} == {
        cause: cause for cause in jobs
    }
    first = why(alice, jobs["missing-module"])["first"]
    hosts = (alice.job_dir(jobs["missing-module"]) / "hosts").read_text().split()
    assert (first["rank"], first["host"]) == (1, hosts[1])
    assert why(alice, cancelled)["cause"] == "cancelled"
    assert len(alice.dlrun("why", jobs["missing-module"]).stdout.splitlines()) == 5


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
    assert why(alice, job)["cause"] == "memory"


def whole(steps: int) -> float:
    """The loss of a training that was never interrupted."""
    loss = 1.0
    for step in range(1, steps + 1):
        loss = loss * 0.99 + 0.001 * (step % 7)
    return loss


def test_a_training_longer_than_its_walltime_goes_on_until_it_is_done(alice):
    """Three minutes of steps where a minute is all that the partition allows: every step once, in order."""
    job = alice.submit(
        {
            "command": ["python3", "steps.py", "165", "1", "{{ run_dir }}/checkpoint"],
            "resources": {"nodes": 1, "ranks_per_node": 1, "walltime": "4m"},
            "checkpoint": {"before_end": "10s", "path": "{{ run_dir }}/checkpoint"},
            "chain": True,
        }
    )
    (run,) = alice.ended(job, within=900)
    place = alice.job_dir(job)
    log = (place / "logs" / "rank-0.log").read_text()
    assert run["state"] == "completed", log + (place / "logs" / "job.log").read_text()
    words = [line.split() for line in log.splitlines()]
    assert [int(w[1]) for w in words if w[0] == "step"] == list(range(1, 166))
    starts = [w for w in words if w[0] == "run"]
    assert [int(w[1]) for w in starts] == [0, 1, 2, 3]
    assert len({w[2] for w in starts}) == 4, "a rendezvous id of its own for each run"
    assert len({w[3] for w in starts}) > 1, "and a port"
    assert {w[4] for w in starts} == {place.name}, "one W&B run"
    assert [w[1:] for w in words if w[0] == "told"] == [["1", "loader", "alive"]] * 3 + [
        ["0", "loader", "alive"]
    ]
    assert float(words[-1][1]) == whole(165)
    assert (place / "logs" / "job.log").read_text().count("another follows") == 3
