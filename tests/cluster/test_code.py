"""What was submitted is what runs, on a real Slurm and, where one is installed, a real OpenPBS: edits while jobs wait and run."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, why_no_pbs, why_not
from tests.cluster.hosts import await_true
from tests.cluster.jobs import PYTHON, User

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
    pytest.mark.needs("git"),
]

SITES = {
    "slurm": {
        "scheduler": {"type": "slurm", "version": "22.05", "memory": "none"},
        "launcher": {"name": "srun"},
        "partitions": {"debug": {"default": True, "max_walltime": "1m"}},
    },
    "pbs": {
        "scheduler": {"type": "openpbs", "gpus": "ngpus"},
        "launcher": {"name": "ssh"},
        "partitions": {"debug": {"default": True, "node_type": "n", "max_walltime": "1m"}},
        "node_types": {"n": {"topology": {"packages": 2, "cores": 4}, "memory": "4000MiB"}},
        "fabric": {"name": "ethernet", "interfaces": ["eth0"]},
    },
}
PLACE = {"nodes": 1, "ranks_per_node": 1, "cpus_per_rank": 1, "walltime": "1m"}
TWO = {**PLACE, "nodes": 2}


@pytest.fixture(scope="module", params=list(SITES))
def kind(request):
    if request.param == "pbs" and why_no_pbs():
        pytest.skip(why_no_pbs())
    return request.param


@pytest.fixture(scope="module")
def alice(kind):
    spec = ClusterSpec(
        scheduler=kind,
        node_types=(NodeType(count=2),),
        partitions=(Partition(name="debug", default=True, max_time="00:01:00"),),
        accounting=kind == "slurm",
        sshd=kind == "pbs",
    )
    with Cluster(spec, name=f"code-{kind}-{os.getpid()}") as running:
        yield User(running, {"name": f"test-{kind}", **SITES[kind]})


def edit(alice, version):
    alice.write("lib.py", f"VERSION = {version}\n")


@pytest.fixture
def tree(alice):
    """The directory of the submissions as a repository of the user's, with version 1 of its module."""
    alice.write(
        "train.py", "import lib, os\nprint('version', lib.VERSION, os.environ['DLRUN_RESTART'], flush=True)\n"
    )
    edit(alice, 1)
    line = (
        "git init -q . && git add train.py lib.py && "
        "git -c user.name=n -c user.email=e@x commit -q --allow-empty -m first && printf '*\\n' >.git/info/exclude"
    )
    # git refuses a repository in another user's directory.
    alice.cluster.on("login", ["chown", alice.name, str(alice.directory)], user="root", check=True)
    done = alice.cluster.on("login", ["bash", "-c", line], user=alice.name, cwd=str(alice.directory))
    assert done.returncode == 0, done.stderr
    return alice.directory


def versions(alice, job, name="rank-0") -> list[str]:
    return [line.split()[1] for line in alice.log(job, name).splitlines() if line.startswith("version ")]


def test_an_edit_while_a_job_waits(alice, tree):
    """Recorded: named; strict: ended; snapshot: the old code ran, also after the directory has gone."""
    jobs = {
        mode: alice.submit({"command": ["python3", "train.py"], "resources": TWO, "hold": True, "code": mode})
        for mode in ("record", "strict", "snapshot")
    }
    edit(alice, 2)
    alice.dlrun("release", *jobs.values())
    runs = {mode: alice.ended(job)[0] for mode, job in jobs.items()}
    assert [run["state"] for run in runs.values()] == ["completed", "failed", "completed"]
    assert versions(alice, jobs["record"]) == ["2"]
    assert versions(alice, jobs["record"], "rank-1") == ["2"]
    assert (
        "lib.py changed since the submission, before the first start"
        in alice.dlrun("status", jobs["record"]).stderr
    )
    assert versions(alice, jobs["strict"]) == []
    assert alice.why(jobs["strict"])["cause"] == "code"
    assert versions(alice, jobs["snapshot"]) == ["1"]
    assert versions(alice, jobs["snapshot"], "rank-1") == ["1"], "on each node"
    assert "changed" not in alice.dlrun("status", jobs["snapshot"]).stderr
    again = alice.dlrun("resubmit", jobs["snapshot"], "--json").stdout
    job = json.loads(again)["job"]["job_id"]
    alice.dlrun("release", job)
    alice.ended(job)
    assert versions(alice, job) == ["1"], "the same code, a week later"


def test_the_directory_is_deleted_before_the_start(alice, tree):
    """A snapshot runs nevertheless, on each node and for each point; the others end with a cause."""
    gone = tree / "gone"
    line = "git clone -q . gone && printf 'DLRUN_*\\n' >gone/.git/info/exclude"
    done = alice.cluster.on("login", ["bash", "-c", line], user=alice.name, cwd=str(tree))
    assert done.returncode == 0, done.stderr
    spec = {"command": ["python3", "train.py"], "directory": str(gone), "resources": TWO, "hold": True}
    jobs = {mode: alice.submit({**spec, "code": mode}) for mode in ("snapshot", "record")}
    points = alice.submit({
        **spec, "code": "snapshot", "resources": PLACE, "command": ["python3", "train.py", "{{ n }}"], "sweep": {"n": ["1", "2"]},
    })  # fmt: skip
    alice.cluster.on("login", ["rm", "-r", str(gone)], user="root", check=True)
    alice.dlrun("release", *jobs.values(), points)
    assert [run["state"] for run in alice.ended(jobs["snapshot"])] == ["completed"]
    assert versions(alice, jobs["snapshot"]) == versions(alice, jobs["snapshot"], "rank-1") == ["1"]
    assert [run["state"] for run in alice.ended(points)] == ["completed"] * 2
    assert alice.ended(jobs["record"])[0]["state"] == "failed"
    assert alice.why(jobs["record"])["cause"] != "unknown"


def test_an_edit_between_requeues(alice, tree):
    """The first run fails after the edit; the second is that of the scheduler."""
    wait = f"python3 train.py; until [ -e {tree}/go-${{DLRUN_JOB_DIR##*/}} ]; do sleep 0.2; done; ((DLRUN_RESTART))"
    common = {"run": wait, "resources": PLACE, "on_failure": {"requeue": 1, "user_error": "requeue"}}
    jobs = {mode: alice.submit({**common, "code": mode}) for mode in ("record", "snapshot", "strict")}
    for job in jobs.values():
        alice.begun(job)
    edit(alice, 2)
    places = {mode: alice.job_dir(job) for mode, job in jobs.items()}
    for place in places.values():  # the second run has another id on some schedulers
        alice.write(f"go-{place.name}", "")
    ends = dict.fromkeys(places, "ended with exit code 0") | {
        "strict": "code: strict: lib.py changed since the submission"
    }
    for mode, place in places.items():
        await_true(lambda place=place, end=ends[mode]: end in log_of(place), 180, f"{place} to end")
    found = {mode: [line.split()[1:] for line in log_of(place, "rank-0").splitlines() if "version" in line]
             for mode, place in places.items()}  # fmt: skip
    assert found == {
        "record": [["1", "0"], ["2", "1"]],
        "snapshot": [["1", "0"], ["1", "1"]],
        "strict": [["1", "0"]],
    }
    assert (
        "lib.py changed since the submission, between runs 1 and 2"
        in alice.dlrun("status", str(places["record"])).stderr
    )


def log_of(place: Path, name: str = "job") -> str:
    path = place / "logs" / f"{name}.log"
    return path.read_text() if path.exists() else ""


def test_an_edit_between_the_links_of_a_chain(alice, tree):
    script = (
        "import os, time, lib\nprint('version', lib.VERSION, flush=True)\n"
        "path = os.environ['DLRUN_RUN_DIR'] + '/saved'\n"
        "if os.path.exists(path): raise SystemExit\n"
        "open(path, 'w').close()\ntime.sleep(300)\n"
    )
    alice.write("long.py", script)
    done = alice.cluster.on("login", ["git", "add", "-f", "long.py"], user=alice.name, cwd=str(tree))
    assert done.returncode == 0, done.stderr
    places, jobs = {}, {}
    for mode in ("snapshot", "record", "strict"):
        job = alice.submit({
            "command": ["python3", "long.py"], "resources": {**PLACE, "walltime": "2m"}, "chain": True, "code": mode,
            "checkpoint": {"before_end": "10s", "path": "{{ run_dir }}/saved", "signal": "TERM"},
        })  # fmt: skip
        jobs[mode], places[mode] = job, alice.job_dir(job)
        alice.begun(job)
    edit(alice, 2)
    for mode in ("snapshot", "record"):
        await_true(
            lambda mode=mode: "ended with exit code 0" in log_of(places[mode]), 400, "the second link to end"
        )
    refused = "code: strict: lib.py changed since the submission"
    await_true(lambda: refused in log_of(places["strict"]), 400, "the second link to be refused")
    assert alice.ended(jobs["strict"])[-1]["state"] == "failed"
    assert log_of(places["snapshot"], "rank-0").count("version 1") == 2
    assert "changed since" not in log_of(places["snapshot"])
    assert [log_of(places["record"], "rank-0").count(f"version {n}") for n in (1, 2)] == [1, 1]
    assert log_of(places["record"]).count("code: lib.py changed since the submission") == 1
    assert log_of(places["strict"]).count(refused) == 1
    assert log_of(places["strict"], "rank-0").count("version") == 1
    assert alice.why(jobs["strict"])["cause"] == "code"


def test_an_edit_after_the_fifth_of_twenty_points(alice, tree):
    """Every point of a snapshot is the same program; with a record, the points after the edit are marked; or they end."""
    points = [str(n) for n in range(20)]
    run = "echo point {{ n }} && python3 train.py"
    jobs = {mode: alice.submit({"run": run, "resources": PLACE, "code": mode, "sweep": {"n": points, "at_once": 1}})
            for mode in ("snapshot", "record", "strict")}  # fmt: skip
    places = {mode: alice.job_dir(job) for mode, job in jobs.items()}
    fifth = places["record"] / "points" / "5" / "logs" / "rank-0.log"
    await_true(lambda: fifth.exists() and "version" in fifth.read_text(), 400, "point 5 to run")
    edit(alice, 2)
    for job in jobs.values():
        alice.ended(job, within=400)
    logs = {mode: [log_of(place / "points" / n, "rank-0") for n in points] for mode, place in places.items()}
    seen = {
        mode: [text.partition("\nversion ")[2][:1] or "-" for text in each] for mode, each in logs.items()
    }
    assert seen["snapshot"] == ["1"] * 20
    assert seen["record"].count("2") >= 10
    # The edit may fall between the check of one point and the start of its program.
    assert re.fullmatch("1+2?-+", "".join(seen["strict"]))
    rows = json.loads(alice.dlrun("results", jobs["record"], "--json").stdout)["results"]
    marked = ["2" if row["commit"].endswith("-changed") else "1" for row in rows]
    assert sum(one != other for one, other in zip(marked, seen["record"], strict=True)) <= 1
    rows = json.loads(alice.dlrun("results", jobs["snapshot"], "--json").stdout)["results"]
    assert len({row["commit"] for row in rows}) == 1


def test_a_hundred_submissions_of_one_repository_store_it_once(alice, tree):
    """Two at a time, as people submit series; what one of them finds in the store it need not write."""
    edit(alice, "'which no other test has'")
    alice.write(
        "held.yaml",
        {
            "name": "test",
            "command": ["python3", "train.py"],
            "resources": PLACE,
            "hold": True,
            "code": "snapshot",
        },
    )
    words = f"PATH={PYTHON}:$PATH DLRUN_SITE={tree}/site.yaml dlrun submit held.yaml --parsable"
    line = f"seq 100 | xargs -P 2 -I@ bash -c {shlex.quote(words)}"
    done = alice.cluster.on(
        "login", ["bash", "-c", line], user=alice.name, cwd=str(tree), timeout=1800, check=True
    )
    jobs = done.stdout.split()
    assert len(set(jobs)) == 100
    alice.dlrun("cancel", *jobs, timeout=600)
    lists = {alice.job_dir(job) / "code" / "snapshot.sha256" for job in jobs[:3]}
    (inode,) = {path.stat().st_ino for path in lists}
    (version,) = {(path.parent / "snapshot").read_text().splitlines()[0] for path in lists}
    of_jobs = [
        path
        for path in next(iter(lists)).parents[2].glob("*/code/snapshot.sha256")
        if path.stat().st_ino == inode
    ]
    assert len(of_jobs) >= 100, "each job has a link to one list"
    stored = [
        path
        for path in (Path(version).parents[1] / "objects").rglob("*")
        if path.is_file() and path.read_bytes() == (tree / "lib.py").read_bytes()
    ]
    assert len(stored) == 1
    assert stored[0].stat().st_nlink == 2, "in the store, and in the one version of all jobs"
