"""Data sets as one SquashFS image, mounted on each node of a job on a real Slurm, and unmounted whatever ends it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, why_not
from tests.cluster.hosts import await_true
from tests.cluster.jobs import User, bash

MISSING = [name for name in ("mksquashfs", "squashfuse") if shutil.which(name) is None]
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
    pytest.mark.skipif(not Path("/dev/fuse").exists(), reason="there is no /dev/fuse here"),
]
SITE = {
    "name": "test-images",
    "scheduler": {"type": "slurm"},
    "launcher": {"name": "srun"},
    "storage": {"node_local": {"path": "/tmp", "size": "10GB"}},
}
NODES = ("n1", "n2")


@pytest.fixture(scope="module")
def alice():
    spec = ClusterSpec(node_types=(NodeType(count=2),), slurm_conf=("KillWait=5",))
    with Cluster(spec, name=f"images-{os.getpid()}") as running:
        for node in NODES:  # udev lets every user open it; a machine without udev has it for root alone
            running.on(
                node,
                "mknod -m 666 /run/fuse c 10 229 && mount --bind /run/fuse /dev/fuse",
                user="root",
                check=True,
            )
        yield User(running, SITE)


@pytest.fixture(scope="module")
def source(alice):
    made = alice.directory / "set"
    for number in range(120):
        place = made / f"d{number % 3}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number}.txt").write_text(f"{number}\n" * number)
    return made


def job(source, script, **more):
    return {
        "command": [*bash(script), "x", "{{ data.set }}", str(source)],
        "resources": {"nodes": 2, "ranks_per_node": 2, "cpus_per_rank": 1, "walltime": "5m"},
        "data": {"set": {"source": str(source), "strategy": "image"} | more},
    }


def mounts(alice):
    """The mounts of images on the nodes."""
    found = [alice.cluster.on(node, "grep -s squashfuse /proc/self/mounts || true").stdout for node in NODES]
    return "".join(found).splitlines()


def test_the_ranks_of_each_node_see_the_source(alice, source):
    number = alice.submit(job(source, 'diff -r "$1" "$2" && grep -c " $1 fuse.squashfuse" /proc/self/mounts'))
    (run,) = alice.ended(number)
    assert run["exit_code"] == 0, alice.log(number)
    assert [alice.log(number, f"rank-{rank}").split() for rank in range(4)] == [["1"]] * 4
    assert not mounts(alice)
    for node in NODES:
        assert alice.cluster.on(node, "ls -A /tmp/dlrun-alice/.dlrun/mounts").stdout == ""


def test_an_image_of_the_users_is_mounted_as_it_is(alice, source):
    image = alice.directory / "given.squashfs"
    subprocess.run(["mksquashfs", source, image, "-no-progress"], check=True, stdout=subprocess.DEVNULL)
    spec = job(image, f'diff -r "$1" {source}', keep="cache")
    for _ in range(2):
        number = alice.submit(spec)
        (run,) = alice.ended(number)
        assert run["exit_code"] == 0, alice.log(number)
    assert not mounts(alice)
    assert "warm" in "".join(alice.log(number, f"stage-{node}") for node in range(2))


@pytest.mark.parametrize("end", ["cancel", "kill", "program"])
def test_no_mount_stays_whatever_ends_the_job(alice, source, end):
    number = alice.submit(job(source, 'cat "$1"/d1/1.txt; echo here; exec sleep 300'))
    alice.running(number)
    await_true(lambda: len(mounts(alice)) == 2, 60, "both nodes have mounted it")
    if end == "cancel":
        alice.dlrun("cancel", number)
    elif end == "kill":
        alice.cluster.on("login", f"scancel --signal=KILL --full {number}", user="root", check=True)
    else:
        for node in NODES:
            alice.cluster.on(node, "pkill -KILL squashfuse; true", user="root")
        alice.dlrun("cancel", number)
    alice.ended(number)
    if end == "kill":  # nothing of the job was left that could: the next job does so
        (run,) = alice.ended(alice.submit(job(source, "true")))
        assert run["exit_code"] == 0
    await_true(lambda: not mounts(alice), 60, "no node has a mount")


def test_a_node_that_cannot_mount_is_named_with_the_package(alice, source):
    spec = job(source, "true")
    spec["environment"] = {
        "setup": ["mkdir -p bin", "ln -sf /bin/* bin/; rm -f bin/squashfuse*", "PATH=$PWD/bin"]
    }
    number = alice.submit(spec)
    (run,) = alice.ended(number)
    assert run["exit_code"] != 0
    found = alice.why(number)
    assert "squashfuse" in found["means"] + str(found.get("evidence")), found
    assert not mounts(alice)
