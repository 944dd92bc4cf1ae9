"""Data reaches every node's own storage before the training starts, on a real Slurm."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, apptainer, why_not
from tests.cluster.hosts import await_true
from tests.cluster.jobs import PYTHON, User, bash
from tests.cluster.staged import (
    PROGRAMS,
    files,
    left_well,
    names,
    virtual_environment,
    whole_and_gone,
    writing,
)
from tests.meeting import ALL_HERE

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(why_not()), reason=why_not())]

SITE = {
    "name": "test-staging",
    "scheduler": {"type": "slurm"},
    "launcher": {"name": "srun"},
    "storage": {"node_local": {"path": "/tmp", "size": "10GB"}},
}


@pytest.fixture(scope="module")
def alice():
    patient = ClusterSpec(
        node_types=(NodeType(count=3),),
        partitions=(
            Partition(name="debug", default=True, priority_tier=2),
            Partition(name="scavenge", preempt="cancel"),
        ),
        sshd=True,
        slurm_conf=("KillWait=60",),  # 30 s is Slurm's own
    )
    with Cluster(patient, name=f"staging-{os.getpid()}") as running:
        yield User(running, SITE)


@pytest.mark.slow
@pytest.mark.needs("bwrap")  # stands in for Apptainer
def test_every_node_gets_the_image_where_the_site_wants_that(alice):
    local = {"path": "/tmp", "size": "10GB", "images": True}
    bob = User(alice.cluster, apptainer.with_it({**SITE, "storage": {"node_local": local}}))
    apptainer.install(bob.cluster.home(bob.name), bob.directory)
    image = bob.directory / "image.sif"
    image.write_bytes(os.urandom(8_000_000))
    job = bob.submit(
        {
            "command": bash("echo $DLRUN_NODE_RANK $IMAGE; sha256sum </image"),
            "resources": {"nodes": 3, "ranks_per_node": 2, "cpus_per_rank": 1, "walltime": "5m"},
            "environment": {"container": {"image": str(image)}},
        }
    )
    (run,) = bob.ended(job)
    assert run["state"] == "completed", bob.log(job)
    digest = hashlib.sha256(image.read_bytes()).hexdigest()
    for rank in range(6):
        node, path, found, _ = bob.log(job, f"rank-{rank}").split()
        assert node == str(rank // 2)
        assert re.fullmatch(r"/tmp/dlrun-alice/image-[0-9a-f]{12}/data/image\.sif", path)
        assert found == digest
    read = [
        json.loads((bob.job_dir(job) / "logs" / f"stage-{node}.jsonl").read_text().splitlines()[-1])
        for node in range(3)
    ]
    assert [one["read"] for one in read] == [8_000_000, 0, 0], "once for all nodes"


@pytest.mark.slow
def test_every_node_runs_its_own_copy_of_the_code(alice):
    """It is read once for all nodes, and what ranks write beside it comes back, also after a failure."""

    def places(node: int) -> list[str]:
        there = "find /tmp/dlrun-alice -mindepth 1 -maxdepth 1 -not -name .dlrun || true"
        return sorted(alice.cluster.on(f"n{node}", there).stdout.split())

    before = [places(node) for node in (1, 2, 3)]
    (alice.directory / "pkg").mkdir()
    alice.write("pkg/lib.py", "VERSION = 1\n")
    alice.write(
        "start.py", "import os, pkg.lib\nprint(os.getcwd(), pkg.lib.__file__, pkg.lib.VERSION, flush=True)\n"
    )
    job = alice.submit(
        {
            "run": f"python3 start.py; echo $DLRUN_RANK >out-$DLRUN_RANK; {ALL_HERE}; exit 3",
            "resources": {"nodes": 3, "ranks_per_node": 2, "cpus_per_rank": 1, "walltime": "5m"},
            "environment": {"variables": {"PYTHONDONTWRITEBYTECODE": "1"}},
            "hold": True,
            "code": {"stage": True},
        }
    )
    alice.write("pkg/lib.py", "VERSION = 2\n")
    alice.dlrun("release", job)
    place = alice.job_dir(job)
    (run,) = alice.ended(job)
    assert run["exit_code"] == 3, alice.log(job)
    for rank in range(6):
        where, file, version = alice.log(job, f"rank-{rank}").split()
        assert re.fullmatch(r"/tmp/dlrun-alice/\.results-[^/]+/work", where)
        assert (file, version) == (f"{where}/pkg/lib.py", "1")
    written = [f"out-{rank}" for rank in range(6)]
    assert sorted(path.name for path in (place / "work").glob("out-*")) == written
    assert f"code: the program wrote to {place}/work: out-" in alice.log(job)
    lines = [(place / "logs" / f"stage-{node}.jsonl").read_text().splitlines() for node in range(3)]
    read = [next(one["read"] for line in of_node if "read" in (one := json.loads(line))) for of_node in lines]
    assert [count > 0 for count in read] == [True, False, False], "once for all nodes"
    assert [places(node) for node in (1, 2, 3)] == before, "nothing is left"


def test_every_node_gets_the_data_and_gives_it_back(alice):
    source = alice.directory / "set"
    (source / "sub").mkdir(parents=True)
    for number in range(300):
        (source / "sub" / f"{number}.txt").write_text(f"{number}\n")
    (source / "with a space").write_text("found\n")
    job = alice.submit(
        {
            "command": [
                *bash('ls "$1/sub" | wc -l; cat "$DLRUN_DATA_SET/with a space"; echo "$1"'),
                "x",
                "{{ data.set }}",
            ],
            "resources": {"nodes": 3, "ranks_per_node": 1, "cpus_per_rank": 1, "walltime": "5m"},
            "data": {"set": {"source": str(source), "strategy": "copy"}},
        }
    )
    (run,) = alice.ended(job)
    logs = alice.job_dir(job) / "logs"
    assert run["state"] == "completed", [path.read_text() for path in logs.glob("*.log")]
    for rank in range(3):
        told = (logs / f"rank-{rank}.log").read_text().splitlines()[-3:]
        assert told == ["300", "found", "/tmp/dlrun-alice/set/data"]
    for node in alice.cluster.spec.nodes:
        left = alice.cluster.own_path(node, "/tmp") / "dlrun-alice" / "set"
        assert not left.exists(), "kept for the job alone"


READING = """
import os, sys, dlrun_data
names = dlrun_data.files(sys.argv[1])
size = sum(os.path.getsize(dlrun_data.wait(name)) for name in names)
try:
    dlrun_data.wait(sys.argv[1] + "/nothing")
except dlrun_data.NeverComes as never:
    print(len(names), size, never.strerror)
"""  # every file as soon as it is there, and one that never will be


def test_ranks_start_with_a_part_and_wait_for_the_rest(alice):
    source = alice.directory / "shards"
    source.mkdir()
    for number in range(30):
        (source / f"shard-{number:02}").write_bytes(os.urandom(1_000_000))
    job = alice.submit(
        {
            "command": [str(PYTHON / "python"), "-c", READING, "{{ data.shards }}"],
            "resources": {"nodes": 3, "ranks_per_node": 1, "cpus_per_rank": 1, "walltime": "5m"},
            "data": {
                "shards": {"source": str(source), "strategy": "copy", "start": "2 files", "rate": "10MB"}
            },
        }
    )
    (run,) = alice.ended(job)
    logs = alice.job_dir(job) / "logs"
    assert run["state"] == "completed", [path.read_text() for path in logs.glob("*.log")]
    assert "the rest follows" in (logs / "job.log").read_text()
    for rank in range(3):
        told = (logs / f"rank-{rank}.log").read_text().splitlines()[-1]
        assert told == "30 30000000 not part of the data set"
    for node in alice.cluster.spec.nodes:
        left = [name for name in names(alice, node) if name == "shards" or name.startswith(".early")]
        assert left == [], "kept for the job alone"


def test_one_node_fills_storage_that_the_nodes_of_a_job_share(alice):
    shared = alice.cluster.shared / "burst"
    shared.mkdir()
    shared.chmod(0o1777)
    alice.write("site.yaml", {**SITE, "storage": {"node_local": {"path": str(shared), "scope": "job"}}})
    job = alice.submit(
        {
            "command": bash('cat "$DLRUN_DATA_SET/7.txt"; echo "$DLRUN_DATA_SET"'),
            "resources": {"nodes": 3, "ranks_per_node": 1, "cpus_per_rank": 1, "walltime": "5m"},
            "data": {"set": {"source": str(files(alice)), "strategy": "copy"}},
        }
    )
    alice.write("site.yaml", SITE)
    (run,) = alice.ended(job)
    logs = alice.job_dir(job) / "logs"
    assert run["state"] == "completed", [path.read_text() for path in logs.glob("*.log")]
    for rank in range(3):
        assert (logs / f"rank-{rank}.log").read_text().splitlines()[-2:] == [
            "7",
            f"{shared}/dlrun-alice/set/data",
        ]
    assert not (logs / "stage-1.log").exists(), "one node copies for all"
    assert [path.name for path in (shared / "dlrun-alice").iterdir()] == [".dlrun"], "removed with the job"


def test_a_source_that_is_missing_on_the_nodes_ends_the_job_by_name(alice):
    job = alice.submit(
        {
            "command": bash("true"),
            "resources": {"nodes": 1, "ranks_per_node": 1, "cpus_per_rank": 1, "walltime": "5m"},
            "data": {"set": {"source": "/nowhere/at/all", "strategy": "copy"}},
        }
    )
    (run,) = alice.ended(job)
    assert run["state"] == "failed"
    assert f"stage 0 on {alice.hosts(job)[0]}" in alice.log(job)
    assert "/nowhere/at/all" in alice.log(job)


def test_a_job_of_its_own_warms_nodes_and_the_next_job_finds_the_data_there(alice):
    source = files(alice)
    alice.dlrun(
        "stage-data",
        str(source),
        "--name",
        "warmed",
        "--nodes",
        "3",
        "--wait",
        "--set",
        "resources.walltime=5m",
    )
    for node in alice.cluster.spec.nodes:
        assert len(names(alice, node, "warmed", "data")) == 40
    job = alice.submit(
        {
            "command": bash('ls "$DLRUN_DATA_WARMED" | wc -l'),
            "resources": {"nodes": 3, "ranks_per_node": 1, "cpus_per_rank": 1, "walltime": "5m"},
            "data": {"warmed": {"source": str(source), "keep": "cache", "size": "110B"}},
        }
    )
    (run,) = alice.ended(job)
    logs = alice.job_dir(job) / "logs"
    assert run["state"] == "completed", [path.read_text() for path in logs.glob("*.log")]
    assert "warm in" in (logs / "stage-0.log").read_text()


def test_inside_an_allocation_all_of_its_nodes_get_the_data(alice):
    source = files(alice)
    line = 'PATH="$0:$PATH" exec salloc -N2 -t5 dlrun stage-data "$1" --name granted'
    done = alice.cluster.on(
        "login",
        ["bash", "-c", line, str(PYTHON), str(source)],
        user="alice",
        env={"DLRUN_SITE": str(alice.directory / "site.yaml")},
        cwd=str(alice.directory),
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "/tmp/dlrun-alice/granted/data"
    assert "on 2 nodes" in done.stderr
    have = [node for node in alice.cluster.spec.nodes if "granted" in names(alice, node)]
    assert len(have) == 2


def test_inside_an_allocation_machines_read_json_lines(alice):
    source = files(alice)
    line = 'PATH="$0:$PATH" exec salloc -Q -N2 -t5 dlrun stage-data "$1" --name told --json'
    done = alice.cluster.on(
        "login",
        ["bash", "-c", line, str(PYTHON), str(source)],
        user="alice",
        env={"DLRUN_SITE": str(alice.directory / "site.yaml")},
        cwd=str(alice.directory),
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    *events, last = [json.loads(text) for text in done.stdout.splitlines()]
    assert ("done", "told") in [(event["event"], event["name"]) for event in events]
    assert (last["stage"]["nodes"], last["stage"]["sets"]) == (2, {"told": "/tmp/dlrun-alice/told/data"})
    assert (last["stage"]["reports"]["told"]["files"], last["stage"]["reports"]["told"]["nodes"]) == (40, 2)


def test_a_venv_comes_to_every_node(alice):
    venv = virtual_environment(alice)
    job = alice.submit(
        {
            "command": ["python", "-c", "import sys; print(sys.prefix)"],
            "environment": {"venv": str(venv), "stage": True},
            "resources": {"nodes": 2, "ranks_per_node": 1, "cpus_per_rank": 1, "walltime": "5m"},
        }
    )
    (run,) = alice.ended(job)
    logs = alice.job_dir(job) / "logs"
    assert run["state"] == "completed", [path.read_text() for path in logs.glob("*.log")]
    for rank in range(2):
        assert (logs / f"rank-{rank}.log").read_text().splitlines()[-1] == "/tmp/dlrun-alice/environment/data"


@pytest.mark.parametrize(("code", "state"), [(0, "completed"), (3, "failed")])
def test_results_of_every_node_come_together_also_when_the_job_fails(alice, code, state):
    to = alice.directory / f"results-{code}"
    script = f"""\
    mkdir "$1/sub"
    echo "$DLRUN_RANK" >"$1/sub/rank-$DLRUN_RANK"
    touch "$DLRUN_RUN_DIR/written-$DLRUN_RANK"  # the first that fails ends the others
    until (($(compgen -G "$DLRUN_RUN_DIR/written-*" | wc -l) == 3)); do sleep 0.1; done
    exit {code}"""
    job = alice.submit(
        {
            "command": [*bash(script), "x", "{{ results }}"],
            "results": str(to),
            "resources": {"nodes": 3, "ranks_per_node": 1, "cpus_per_rank": 1, "walltime": "20m"},
        }
    )
    (run,) = alice.ended(job)
    logs = alice.job_dir(job) / "logs"
    assert run["state"] == state, [path.read_text() for path in logs.glob("*.log")]
    assert sorted(path.name for path in (to / "sub").iterdir()) == ["rank-0", "rank-1", "rank-2"]
    for node in alice.cluster.spec.nodes:
        assert not [name for name in names(alice, node) if name.startswith(".results")]


def test_a_node_without_local_storage_is_told_by_name(alice):
    source = files(alice)
    alice.write("site.yaml", {**SITE, "storage": {"node_local": {"path": "/ssd", "size": "10GB"}}})
    try:
        spec = {
            "command": bash("true"),
            "resources": {"nodes": 2, "ranks_per_node": 1, "cpus_per_rank": 1, "walltime": "5m"},
            "data": {"set": {"source": str(source), "strategy": "copy"}},
        }
        job = alice.submit(spec)
        (run,) = alice.ended(job)
    finally:
        alice.write("site.yaml", SITE)
    assert run["state"] == "failed"
    logs = alice.job_dir(job) / "logs"
    log = (logs / "job.log").read_text()
    assert alice.why(job)["first"]["role"] == "stage"
    assert "there is no node-local storage at `/ssd`" in log
    assert "name a directory that this node can write" in log
    assert not list(logs.glob("rank-*.log")), "no rank starts without its data"


def test_results_come_whole_before_the_walltime_ends(alice):
    to = alice.directory / "results-in-time"
    script = """\
    trap '' TERM
    for ((n = 0; ; n++)); do
      head -c 262144 /dev/urandom >"$1/.new-$DLRUN_RANK"
      sha256sum <"$1/.new-$DLRUN_RANK" >"$1/$DLRUN_RANK-$n.sum"
      mv "$1/.new-$DLRUN_RANK" "$1/$DLRUN_RANK-$n"
      sleep 0.5
    done"""
    job = alice.submit(
        {
            "command": [*bash(script), "x", "{{ results }}"],
            "results": {"to": str(to), "before_end": "20s"},  # the ranks have 25 s to begin
            "resources": {"nodes": 2, "ranks_per_node": 1, "cpus_per_rank": 1, "walltime": "1m"},
        }
    )
    (run,) = alice.ended(job, within=180)
    log = (alice.job_dir(job) / "logs" / "job.log").read_text()
    assert "the walltime is over: ending the ranks" in log
    assert "copying the results to" in log
    assert run["state"] == "timed out", log
    whole_and_gone(alice, to, ranks=2)


def await_keeper(alice, job):
    """Wait for each node's standby: its step starts beside the ranks, and a job that is ended before it is up leaves what
    it has on its nodes, for the next job there to clear."""
    waits = "test $(pgrep -u alice -fc '/stage.sh keep$') -ge 2"
    for node in alice.hosts(job):
        await_true(lambda on=node: alice.cluster.on(on, waits).returncode == 0, 60, "the standby to wait")


@pytest.mark.parametrize("launcher", ["srun", "ssh", "openmpi", "hydra"])
def test_a_cancelled_job_brings_its_results_and_leaves_no_data(alice, launcher):
    if alice.cluster.on("login", ["which", PROGRAMS[launcher]]).returncode:
        pytest.skip(f"{PROGRAMS[launcher]} is not installed")
    alice.write("by.yaml", {**SITE, "launcher": {"name": launcher, "program": PROGRAMS[launcher]}})
    to = alice.directory / f"results-cancelled-{launcher}"
    job = writing(alice, to, "--site", "by.yaml", stubborn=True)
    if launcher != "ssh":
        await_keeper(alice, job)
    alice.cluster.on("login", ["scancel", job], user="alice", check=True)
    assert alice.ended(job)[0]["state"] == "cancelled"
    left_well(alice, job, to)


def test_a_preempted_job_brings_its_results_and_leaves_no_data(alice):
    to = alice.directory / "results-preempted"
    place = {"nodes": 2, "ranks_per_node": 1, "cpus_per_rank": 1, "walltime": "10m", "partition": "scavenge"}
    job = writing(alice, to, resources=place)
    await_keeper(alice, job)
    all_of_them = {"nodes": 3, "ranks_per_node": 1, "cpus_per_rank": 8, "walltime": "5m"}
    other = alice.submit({"command": bash("true"), "resources": all_of_them})
    assert alice.ended(job)[0]["state"] == "preempted"
    left_well(alice, job, to)
    assert alice.ended(other)[0]["state"] == "completed"


ONE_NODE = {"nodes": 1, "hosts": ["n1"], "ranks_per_node": 1, "cpus_per_rank": 1, "walltime": "5m"}
WAITING = "waiting for another job that is copying it"


def whole(alice, source, name):
    """The set on the first node is exactly its source."""
    copy = alice.cluster.own_path("n1", "/tmp") / "dlrun-alice" / name / "data"
    wanted = {path.name: path.read_bytes() for path in source.iterdir()}
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == wanted


def test_two_jobs_that_want_one_set_on_one_node_copy_it_once(alice):
    source, lock = files(alice), "/tmp/dlrun-alice/.dlrun/lock.both"
    opened = alice.directory / "opened"  # once both have come
    wait = f"until [[ -e {opened} ]]; do sleep 0.1; done"
    shut = alice.directory / "shut"
    held = f"umask 077; mkdir -p {Path(lock).parent}; exec flock {lock} bash -c 'touch {shut}; {wait}'"
    gate = alice.cluster.popen("n1", held, user="alice")
    await_true(shut.exists, 60, "the lock to be held")
    meet = f'touch "{alice.directory}/met-$1"; until [[ -e {alice.directory}/met-$2 ]]; do sleep 0.1; done'
    script = f'{meet}; cat "$DLRUN_DATA_BOTH"/*.txt | wc -l'  # while the other uses it
    jobs = [
        alice.submit(
            {
                "command": [*bash(script), "x", *order],
                "resources": ONE_NODE,
                "data": {"both": {"source": str(source), "strategy": "copy", "keep": "cache"}},
            }
        )
        for order in (("1", "2"), ("2", "1"))
    ]
    try:
        for job in jobs:
            await_true(lambda job=job: WAITING in alice.log(job, "stage-0"), 120, "both jobs to want it")
    finally:
        opened.touch()
        gate.communicate(timeout=60)
    ends = [alice.ended(job, within=120)[0]["state"] for job in jobs]
    logs = [alice.log(job, "stage-0") for job in jobs]
    assert ends == ["completed"] * 2, logs
    assert sorted("copied in" in log for log in logs) == [False, True], logs
    assert sorted("warm in" in log for log in logs) == [False, True], logs
    assert [alice.log(job, "rank-0") for job in jobs] == ["40\n"] * 2
    whole(alice, source, "both")


def test_a_job_takes_over_from_one_that_is_cancelled_while_it_copies(alice):
    source = alice.directory / "slowly"
    source.mkdir()
    for number in range(2000):
        (source / f"{number}.bin").write_bytes(os.urandom(1024))

    def wants(**more):
        data = {"half": {"source": str(source), "strategy": "copy", "keep": "cache", **more}}
        return alice.submit({"command": bash("true"), "resources": ONE_NODE, "data": data})

    part = alice.cluster.own_path("n1", "/tmp") / "dlrun-alice" / ".dlrun" / "part.half"
    first = wants(rate="20kB")  # a second
    await_true(lambda: any(path.stat().st_size for path in part.glob("journal.*")), 120, "some blocks")
    second = wants()
    await_true(lambda: WAITING in alice.log(second, "stage-0"), 90, "the other job to wait")
    assert part.exists()
    alice.cluster.on("login", ["scancel", first], user="alice", check=True)
    assert alice.ended(first)[0]["state"] == "cancelled"
    assert alice.ended(second)[0]["state"] == "completed", alice.log(second, "stage-0")
    events = (alice.job_dir(second) / "logs" / "stage-0.jsonl").read_text().splitlines()
    done = json.loads(events[-1])
    assert (done["event"], done["how"]) == ("done", "copied")
    assert 0 < done["copied"] < done["bytes"], "what was copied is not copied again"
    whole(alice, source, "half")


@pytest.fixture
def ahead(alice):
    """What a spec says so that the second node's clock is two hours ahead in all that the job runs there."""
    shim, begin = alice.cluster.shared / "clock.so", alice.directory / "ahead.sh"
    source = Path(__file__).with_name("clock.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", shim, source, "-ldl"], check=True)
    shim.chmod(0o755)
    begin.write_text(f"[[ $(uname -n) != n2* ]] || export LD_PRELOAD={shim} CLOCK_AHEAD=7200\n")
    return {"environment": {"setup": [f"export BASH_ENV={begin}"]}}


def on_second(alice, name, source, *words, script="date +%s", hosts=("n2",), **more):
    """Submit a job that has a data set, kept, on the second node."""
    place = {"ranks_per_node": 1, "cpus_per_rank": 1, "walltime": "30m"}
    spec = {
        "command": bash(script),
        "resources": {**place, "nodes": len(hosts), "hosts": list(hosts)},
        "data": {name: {"source": str(source), "strategy": "copy", "keep": "cache"}},
        **more,
    }
    return alice.submit(spec, *words)


def test_a_set_is_recognised_whatever_the_clock_says(alice, ahead):
    source = files(alice)
    jobs = [on_second(alice, "ahead", source, hosts=("n1", "n2"), **ahead)]
    assert alice.ended(jobs[0], within=180)[0]["state"] == "completed", alice.log(jobs[0])
    rank = alice.hosts(jobs[0]).index("n2")
    assert int(alice.log(jobs[0], f"rank-{rank}")) - int(alice.log(jobs[0], f"rank-{1 - rank}")) > 7000
    for more in ({}, ahead):  # put right, and wrong again
        jobs.append(on_second(alice, "ahead", source, **more))
        assert alice.ended(jobs[-1], within=180)[0]["state"] == "completed", alice.log(jobs[-1])
        assert "warm in" in alice.log(jobs[-1], "stage-0")


def test_a_clock_that_is_ahead_takes_no_set_in_use(alice, ahead):
    """By that clock the walltime of the job that uses the set was over long ago; it is also the one used longest ago."""
    node_local = {**SITE["storage"]["node_local"], "quota": "250B"}  # two sets of 110 bytes
    alice.write("quota.yaml", {**SITE, "storage": {"node_local": node_local}})
    go = alice.directory / "go"
    wait = f'echo begun; until [[ -e {go} ]]; do sleep 0.2; done; cat "$DLRUN_DATA_USED"/*.txt | wc -l'
    user = on_second(alice, "used", files(alice), script=wait)
    try:
        await_true(lambda: alice.log(user, "rank-0") != "", 180, "the set to be in use")
        unused = on_second(alice, "unused", files(alice))
        assert alice.ended(unused, within=180)[0]["state"] == "completed", alice.log(unused)
        other = on_second(alice, "other", files(alice), "--site", "quota.yaml", **ahead)
        assert alice.ended(other, within=180)[0]["state"] == "completed", alice.log(other)
        assert "evicted `unused`" in alice.log(other, "stage-0")
    finally:
        go.touch()
    assert alice.ended(user)[0]["state"] == "completed", alice.log(user)
    assert alice.log(user, "rank-0").splitlines() == ["begun", "40"]
    assert {"used", "other"} <= set(names(alice, "n2"))
