"""Jobs that have data on their nodes and write results there: started, and looked at once they are over."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from pathlib import Path

from tests.cluster.hosts import await_true
from tests.cluster.jobs import User, bash

PROGRAMS = {"srun": "srun", "ssh": "ssh", "openmpi": "mpirun.openmpi", "hydra": "mpiexec.hydra"}
"""Launchers, and what Debian calls the program of each."""


def files(user: User, count: int = 40) -> Path:
    """A data set on the shared file system."""
    source = user.directory / f"set{time.monotonic_ns()}"
    source.mkdir()
    for number in range(count):
        (source / f"{number}.txt").write_text(f"{number}\n")
    return source


def virtual_environment(user: User) -> Path:
    """An empty one on the shared file system."""
    place = user.directory / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    for path in (place, *place.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | 0o055)
    return place


def names(user: User, node: str, *path: str) -> list[str]:
    """What stands in a directory of a node."""
    place = user.cluster.own_path(node, "/tmp").joinpath(f"dlrun-{user.name}", *path)
    return sorted(one.name for one in place.iterdir()) if place.is_dir() else []


SCRIPT = """\
setsid bash -c 'trap "" TERM; sleep 600' &
printf 12345 >"$1/rank-$DLRUN_RANK"
: >"$DLRUN_RUN_DIR/written-$DLRUN_RANK"
sleep 600"""
"""A rank with a result of five bytes, and a child in a session of its own that ignores SIGTERM."""


def leaving_much(user: User, to: Path, nodes: int, walltime: str) -> dict[str, object]:
    """A spec with data on each node, and `SCRIPT` for the rank of each."""
    return {
        "command": [*bash(SCRIPT), "x", "{{ results }}"],
        "data": {"set": {"source": str(files(user)), "strategy": "copy", "keep": "job"}},
        "results": {"to": str(to), "before_end": "10s"},
        "resources": {"nodes": nodes, "ranks_per_node": 1, "walltime": walltime},
    }


def await_standbys(user: User, job: str, nodes: int) -> None:
    """Wait until the ranks of such a job have written, and each node's standby waits for the end."""
    place = user.job_dir(job)
    await_true(lambda: len(list(place.glob("written-*"))) == nodes, 120, "all ranks to write")
    waits = f"test $(pgrep -u {user.name} -fc '/stage.sh keep$') -ge 2"
    for node in user.hosts(job):
        await_true(lambda on=node: user.cluster.on(on, waits).returncode == 0, 60, "the standby to wait")


def writing(user: User, to: Path, *words: str, stubborn: bool = False, **spec: object) -> str:
    """A job on two nodes that has its data there, and whose ranks have each written a result and run on; its id.

    `stubborn` ranks do not end when they are asked to.
    """
    script = f"""\
    {"trap '' TERM" if stubborn else ":"}
    head -c 1048576 /dev/urandom >"$1/$DLRUN_RANK-0"
    sha256sum <"$1/$DLRUN_RANK-0" >"$1/$DLRUN_RANK-0.sum"
    touch "$DLRUN_RUN_DIR/written-$DLRUN_RANK"
    while :; do sleep 1; done"""
    job = user.submit(
        {
            "command": [*bash(script), "x", "{{ results }}"],
            "data": {"set": {"source": str(files(user)), "strategy": "copy"}},
            "results": {"to": str(to), "before_end": "1m"},
            "resources": {"nodes": 2, "ranks_per_node": 1, "cpus_per_rank": 1, "walltime": "10m"},
            **spec,
        },
        *words,
    )
    directory = user.job_dir(job)
    await_true(lambda: len(list(directory.glob("written-*"))) == 2, 120, "both ranks to write")
    assert any("set" in names(user, node) for node in user.cluster.spec.nodes)
    return job


def left_well(user: User, job: str, to: Path) -> None:
    """The job, which was asked to end, has said so, brought its results whole, and left nothing on its nodes."""
    await_true(lambda: "ended with exit code" in user.log(job), 60, "the job's script to end")
    log = user.log(job)
    assert "copying the results to" in log
    reports = [path.read_text() for path in sorted((user.job_dir(job) / "logs").glob("stage-*.log"))]
    assert "not all results" not in log, (log, *reports)
    whole_and_gone(user, to, ranks=2)
    for node in user.cluster.spec.nodes:
        assert "set" not in names(user, node), "kept for the job alone"


def whole_and_gone(user: User, to: Path, ranks: int) -> None:
    """Every file that has its final name is whole, and nothing is left on the nodes."""
    brought = [path for path in to.iterdir() if path.suffix == "" and not path.name.startswith(".")]
    assert {path.name.partition("-")[0] for path in brought} == {str(rank) for rank in range(ranks)}
    for path in brought:
        wanted = path.with_name(path.name + ".sum").read_text().split()[0]
        assert hashlib.sha256(path.read_bytes()).hexdigest() == wanted, path
    for node in user.cluster.spec.nodes:
        assert not [name for name in names(user, node) if name.startswith(".results")]
