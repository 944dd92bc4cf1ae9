"""`fetch: job`: an image comes into the user's store once, by the first node of a job, and from there to all, on a real Slurm."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, apptainer, why_not
from tests.cluster.hosts import await_true
from tests.cluster.jobs import User, bash

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
    pytest.mark.needs("bwrap"),  # stands in for Apptainer
]

SITE = {
    "name": "test-images",
    "scheduler": {"type": "slurm"},
    "launcher": {"name": "srun"},
    "storage": {"node_local": {"path": "/tmp", "size": "10GB"}},
}
RESOURCES = {"nodes": 3, "ranks_per_node": 2, "cpus_per_rank": 1, "walltime": "5m"}
SEEN = bash("echo $DLRUN_NODE_RANK $IMAGE; sha256sum </image")
SIZE = 8_000_000


@pytest.fixture(scope="module")
def alice():
    with Cluster(ClusterSpec(node_types=(NodeType(count=3),)), name=f"images-{os.getpid()}") as running:
        user = User(running, apptainer.with_it(SITE))
        apptainer.install(running.home(user.name), user.directory)
        yield user


@pytest.fixture
def home(alice) -> Path:
    """Alice's home directory, with an image that nobody has pulled yet."""
    place = Path(alice.cluster.home(alice.name))
    (place / "pulled.sif").write_bytes(os.urandom(SIZE))
    for name in ("pulls", "hold"):
        (place / name).unlink(missing_ok=True)
    return place


def container(home: Path, **environment: object) -> dict[str, object]:
    """The environment of a job in that image, whose registry no node can reach: its digest is in its name."""
    digest = hashlib.sha256((home / "pulled.sif").read_bytes()).hexdigest()
    image = f"docker://registry.invalid/org/tool:1.0@sha256:{digest}"
    return {"container": {"image": image, "fetch": "job"}, **environment}


def pulls(home: Path) -> list[str]:
    """The host and image of each pull."""
    return (home / "pulls").read_text().splitlines() if (home / "pulls").exists() else []


def seen(user: User, job: str, home: Path) -> set[str]:
    """Where the ranks of a job found the image, which is the right one on each node."""
    (run,) = user.ended(job)
    assert run["state"] == "completed", user.log(job)
    digest, paths = hashlib.sha256((home / "pulled.sif").read_bytes()).hexdigest(), set()
    for rank in range(6):
        node, path, found, _ = user.log(job, f"rank-{rank}").split()[-4:]
        assert (node, found) == (str(rank // 2), digest)
        paths.add(path)
    return paths


def test_one_pull_for_six_ranks_and_none_for_the_next_job(alice, home):
    job = alice.submit({"command": SEEN, "resources": RESOURCES, "environment": container(home)})
    (path,) = seen(alice, job, home)
    assert [line.split()[0] for line in pulls(home)] == ["n1"]
    assert f"/.dlrun-hub-{home.stat().st_uid}/images--registry.invalid--org--tool/" in path
    facts = json.loads((alice.job_dir(job) / "image.json").read_text())
    assert facts["digest"] in json.dumps(container(home))
    assert "pulled and converted once for all jobs" in alice.log(job)
    local = {**container(home), "stage": True}
    staged = alice.submit({"command": SEEN, "resources": RESOURCES, "environment": local})
    (there,) = seen(alice, staged, home)
    assert re.fullmatch(r"/tmp/dlrun-alice/image-[0-9a-f]{12}/data/image\.sif", there)
    assert len(pulls(home)) == 1, "the second job has none"
    logs = alice.job_dir(staged) / "logs"
    read = [json.loads((logs / f"stage-{n}.jsonl").read_text().splitlines()[-1])["read"] for n in range(3)]
    assert read == [SIZE, 0, 0], "once for all nodes"


def test_a_job_that_is_put_back_while_it_pulls_pulls_again(alice, home):
    (home / "hold").touch()
    repeats = {"requeue": 1}
    spec = {"command": SEEN, "resources": RESOURCES, "environment": container(home), "on_failure": repeats}
    job = alice.submit(spec)
    await_true(lambda: bool(pulls(home)), 60, "the pull")
    alice.cluster.on("login", f"scontrol requeue {job}", user="alice", check=True)
    (home / "hold").unlink()
    (path,) = seen(alice, job, home)
    assert len(pulls(home)) == 2
    assert "pulled and converted once" in alice.log(job)
    assert sorted(one.name for one in Path(path).parents[1].iterdir() if one.name.endswith(".parts")) == []


def test_two_jobs_at_once_pull_once(alice, home):
    (home / "hold").touch()
    one = {"nodes": 1, "ranks_per_node": 2, "cpus_per_rank": 1, "walltime": "5m"}
    spec = {"command": bash("cat /image | sha256sum"), "resources": one, "environment": container(home)}
    jobs = [alice.submit(spec) for _ in range(2)]
    await_true(lambda: any("waiting for it" in alice.log(job) for job in jobs), 60, "a job that waits")
    (home / "hold").unlink()
    for job in jobs:
        (run,) = alice.ended(job)
        assert run["state"] == "completed", alice.log(job)
    assert len(pulls(home)) == 1


def test_a_role_on_other_nodes_pulls_its_image_there(alice, home):
    """The script of the role is on the first node, where the other role runs, and may have no way to convert images."""
    judge = {"command": bash("sleep 600"), "ranks_per_node": 1, "cpus_per_rank": 1}
    train = {"command": SEEN, "nodes": 2, "ranks_per_node": 2, "cpus_per_rank": 1, "ends": True}
    roles = {"judge": judge, "train": {**train, "environment": container(home)}}
    job = alice.submit({"roles": roles, "resources": {"walltime": "5m"}})
    (run,) = alice.ended(job)
    assert run["state"] == "completed", alice.log(job)
    assert [line.split()[0] for line in pulls(home)] == ["n2"]
    digest = hashlib.sha256((home / "pulled.sif").read_bytes()).hexdigest()
    place = alice.job_dir(job) / "roles/train"
    assert [(place / f"logs/rank-{rank}.log").read_text().split()[-2] for rank in range(4)] == [digest] * 4
    assert digest in (place / "image.json").read_text()
