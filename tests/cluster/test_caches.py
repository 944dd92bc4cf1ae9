"""What compilers have compiled comes from the user's store to every node, and new entries go there, on a real Slurm.

Between jobs the nodes' caches are removed, as where `/tmp` belongs to the job.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, why_not
from tests.cluster.hosts import await_true
from tests.cluster.jobs import PYTHON, User, bash

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
    pytest.mark.needs("cc"),
]

SITE = {
    "name": "test-caches",
    "scheduler": {"type": "slurm"},
    "launcher": {"name": "srun"},
    "storage": {"node_local": {"path": "/tmp", "size": "10GB"}},
}
RESOURCES = {"nodes": 3, "ranks_per_node": 2, "cpus_per_rank": 1, "walltime": "5m"}
HOLD = """
trap '' TERM
"$0" compile.py "$@"
if ((DLRUN_RESTART)); then exit; fi
: >"$DLRUN_RUN_DIR/compiled-$DLRUN_RANK"
until [[ -e $DLRUN_RUN_DIR/go ]]; do sleep 0.2; done
"""
"""Once it has compiled, the first run waits."""
SETTLED = """
until [[ -z $(find "$TORCH_EXTENSIONS_DIR" -newermt '-12 seconds' -type f) ]]; do sleep 1; done
"""
"""Files that were written later are not saved while others may still write."""
COMPILE = """
import ctypes, os, subprocess, sys
place = os.environ["TORCH_EXTENSIONS_DIR"]
for name in sys.argv[1:]:
    library = f"{place}/{name}-{os.environ['LOCAL_RANK']}.so"
    there = os.path.exists(library)
    if not there:
        source = f"int step(void) {{ return {len(name)}; }}".encode()
        subprocess.run(["cc", "-shared", "-xc", "-", "-o", library + ".tmp"], input=source, check=True)
        os.rename(library + ".tmp", library)
    assert ctypes.CDLL(library).step() == len(name)
    print("found" if there else "compiled", name, flush=True)
"""
"""A program that compiles what it calls, unless its cache has it."""


@pytest.fixture(scope="module")
def cluster():
    spec = ClusterSpec(node_types=(NodeType(count=3),), sshd=True)
    with Cluster(spec, name=f"caches-{os.getpid()}") as running:
        yield running


@pytest.fixture
def alice(cluster):
    yield from with_programs(User(cluster, SITE))


def with_programs(user: User) -> Iterator[User]:
    """A user with a program that compiles; afterwards, nothing is left on the nodes or in the store."""
    user.write("compile.py", COMPILE)
    yield user
    empty(user)
    user.cluster.on("login", "rm -rf ~/.local/state/dlrun", user=user.name)


def empty(user, names: str = "dlrun-*") -> None:
    """As if the nodes' storage had belonged to the job."""
    for node in user.cluster.spec.nodes:
        user.cluster.on(node, f"rm -rf /tmp/{names}", user="root", check=True)


def submit(user, *names: str, **spec) -> str:
    command = [str(PYTHON / "python"), "compile.py", *names]
    return user.submit({"command": command, "resources": RESOURCES, "caches": "auto", **spec})


def run(user, *names: str, **spec) -> tuple[str, list[list[str]]]:
    """A job on empty nodes: its id, and what each rank has said."""
    empty(user)
    job = submit(user, *names, **spec)
    (only,) = user.ended(job)
    assert only["state"] == "completed", user.log(job)
    return job, [of_program(user.job_dir(job) / f"logs/rank-{rank}.log") for rank in range(6)]


def of_program(log: Path) -> list[str]:
    """The lines of the program; dlrun notes there that a node of the test has fewer NUMA nodes than its profile."""
    return [line for line in log.read_text().splitlines() if not line.startswith("dlrun: ")]


def cold_starts(user, job: str) -> list[tuple[int, int] | None]:
    """Of each run, role or point of a job: (nodes without the entries of earlier jobs, all nodes); None if all had them."""
    runs = json.loads(user.dlrun("usage", job, "--json").stdout)["usage"]
    cold = [one["cold_start"] for one in runs]
    return [one and (one["cold"], one["nodes"]) for one in cold]


def versions(user, job: str) -> list[Path]:
    """The complete ones in the store, the oldest first."""
    marks = user.job_dir(job).parent.glob(".dlrun-hub-*/caches--*/*.json")
    return [
        mark.with_suffix("") for mark in sorted(marks, key=lambda mark: json.loads(mark.read_text())["saved"])
    ]


def test_a_second_job_compiles_nothing(alice):
    home = alice.cluster.home(alice.name)
    before = {path for path in home.rglob("*") if path.is_file()}
    job, said = run(alice, "one", "two")
    assert said == [["compiled one", "compiled two"]] * 6
    assert cold_starts(alice, job) == [(3, 3)]
    job, said = run(alice, "one", "two")
    assert said == [["found one", "found two"]] * 6, alice.log(job)
    assert cold_starts(alice, job) == [None]
    assert "the nodes begin with the compiled entries of earlier jobs" in alice.log(job)
    read = []
    for node in range(3):
        lines = (alice.job_dir(job) / "logs" / f"stage-{node}.jsonl").read_text().splitlines()
        read.append(sum(json.loads(line).get("read", 0) for line in lines))
    assert [count > 0 for count in read] == [True, False, False], "once for all nodes"
    assert len(versions(alice, job)) == 1, "nothing new was compiled"
    _, said = run(alice, "one", "three")
    assert said == [["found one", "compiled three"]] * 6
    _, said = run(alice, "three", "two")
    assert said == [["found three", "found two"]] * 6
    after = {path for path in home.rglob("*") if path.is_file()}
    assert not {path for path in after - before if "dlrun" not in str(path)}


def test_jobs_that_save_at_once_lose_nothing(alice):
    """They end when both have compiled."""
    empty(alice)
    waits = [*bash(f"{HOLD}"), str(PYTHON / "python")]
    one = RESOURCES | {"nodes": 1}
    jobs = [
        alice.submit({"command": [*waits, name], "resources": one, "caches": "auto"})
        for name in ("one", "two")
    ]
    places = [alice.job_dir(job) for job in jobs]
    ready = [place / f"compiled-{rank}" for place in places for rank in range(2)]
    await_true(lambda: all(path.exists() for path in ready), 90, "both to compile")
    for place in places:
        (place / "go").touch()
    for job in jobs:
        (only,) = alice.ended(job)
        assert only["state"] == "completed", alice.log(job)
    job, said = run(alice, "one", "two")
    assert said == [["found one", "found two"]] * 6, alice.log(job)


def test_what_is_compiled_is_saved_at_the_signal_to_save(alice):
    """The job runs on, and its node is lost: the next job has what was compiled before the signal."""
    empty(alice)
    job = alice.submit(
        {
            "command": [*bash(f"trap '' USR1\n{HOLD}"), str(PYTHON / "python"), "one"],
            "resources": RESOURCES | {"walltime": "3m"},
            "checkpoint": {"signal": "USR1", "before_end": "150s"},
            "caches": "auto",
        }
    )
    await_true(lambda: versions(alice, job), 120, "an archive")
    assert alice.state(job)[0]["state"] == "running", alice.log(job)
    first = alice.log(job).split("rank 0 is on ")[1].split(";")[0]
    alice.cluster.kill_node(first)
    (only,) = alice.ended(job, within=300)
    assert only["state"] != "completed"
    alice.cluster.start_node(first)
    await_true(
        lambda: alice.cluster.on("login", "sinfo -h -o %D -t idle").stdout.strip() == "3", 120, "the node"
    )
    job, said = run(alice, "one")
    assert said == [["found one"]] * 6, alice.log(job)


def test_a_node_that_is_killed_while_it_saves_leaves_nothing(alice):
    """A process of the job stops the one that saves once its archive has begun, and not the shell whose text this is."""
    empty(alice)
    stop = """
    until compgen -G "${DLRUN_JOB_DIR%/*}/.dlrun-hub-$EUID/caches--*/.*.new/cache.tar" >/dev/null; do :; done
    for process in /proc/[0-9]*; do
      if [[ $(tr '\\0' ' ' <"$process/cmdline") == *' compiled-''save '* ]]; then kill -STOP "${process#/proc/}"; fi
    done 2>/dev/null
    : >"$DLRUN_RUN_DIR/stopped"
    """
    script = f"""
    trap '' USR1
    if ((DLRUN_RANK == 0)); then
      head -c 100M /dev/urandom >"$TORCH_EXTENSIONS_DIR/large"
      ( {stop} ) &
    fi
    {HOLD}
    """
    job = alice.submit(
        {
            "command": [*bash(script), str(PYTHON / "python"), "one"],
            "resources": RESOURCES | {"walltime": "3m"},
            "checkpoint": {"signal": "USR1", "before_end": "150s"},
            "caches": "auto",
        }
    )
    await_true((alice.job_dir(job) / "stopped").exists, 120, "the archive to begin")
    first = alice.log(job).split("rank 0 is on ")[1].split(";")[0]
    alice.cluster.kill_node(first)
    (only,) = alice.ended(job, within=300)
    assert only["state"] != "completed"
    assert not versions(alice, job), "the archive was not complete"
    (left,) = alice.job_dir(job).parent.glob(".dlrun-hub-*/caches--*/.*.new")
    alice.cluster.start_node(first)
    await_true(
        lambda: alice.cluster.on("login", "sinfo -h -o %D -t idle").stdout.strip() == "3", 120, "the node"
    )
    for word in ("compiled", "found"):
        job, said = run(alice, "one")
        assert said == [[f"{word} one"]] * 6, alice.log(job)
        (version,) = versions(alice, job)
        assert {path.name for path in left.parent.iterdir()} == {
            ".lock",
            version.name,
            f"{version.name}.json",
        }


def test_a_run_after_a_requeue_compiles_nothing(alice):
    start_again(alice, nodes=3)


def start_again(alice, nodes: int) -> None:
    """The program fails; its files were complete for longer than the seconds in which they may not be.

    The second run waits, since some schedulers start it before the nodes' caches are removed.
    """
    failing = f"{HOLD}{SETTLED}exit 75"
    setup = "until ((DLRUN_RESTART == 0)) || [[ -e $DLRUN_JOB_DIR/emptied ]]; do sleep 0.2; done"
    empty(alice)
    spec = {
        "command": [*bash(failing), str(PYTHON / "python"), "one"],
        "resources": RESOURCES | {"nodes": nodes},
        "caches": "auto",
        "environment": {"setup": [setup]},
        "on_failure": {"requeue": 1, "user_error": "requeue"},
    }
    job = alice.submit(spec)
    place = alice.job_dir(job)
    await_true(
        lambda: all((place / f"compiled-{rank}").exists() for rank in range(2 * nodes)),
        60,
        "all ranks to compile",
    )
    (place / "go").touch()
    await_true(lambda: "another follows" in alice.log(job), 90, "the run to end")
    await_true(lambda: versions(alice, job), 60, "an archive")
    empty(alice, "dlrun-caches-*")
    (place / "emptied").touch()
    (only,) = alice.ended(job, within=300)
    assert only["state"] == "completed", alice.log(job)
    assert cold_starts(alice, job) == [None]
    for rank in range(2 * nodes):
        assert of_program(place / f"logs/rank-{rank}.log")[-1] == "found one"


def test_the_next_run_of_a_chain_compiles_nothing(alice):
    """The first one is ended by the signal before its walltime; the nodes' caches are removed before the second compiles."""
    script = """
    "$0" compile.py "$@" || exit
    if [[ -e $DLRUN_RUN_DIR/saved ]]; then exit; fi
    : >"$DLRUN_RUN_DIR/saved"
    exec sleep 600
    """
    setup = "until ((DLRUN_RESTART == 0)) || [[ -e $DLRUN_JOB_DIR/emptied ]]; do sleep 0.2; done"
    short = {"debug": {"default": True, "max_walltime": "2m"}}
    alice.write("short.yaml", json.dumps({**SITE, "partitions": short}))
    empty(alice)
    spec = {
        "command": [*bash(script), str(PYTHON / "python"), "one"],
        "resources": RESOURCES | {"walltime": "6m"},
        "checkpoint": {"before_end": "30s", "signal": "TERM", "path": "{{ run_dir }}/saved"},
        "chain": True,
        "caches": "auto",
        "environment": {"setup": [setup]},
    }
    job = alice.submit(spec, "--site", "short.yaml")
    place = alice.job_dir(job)
    await_true(lambda: "another follows" in alice.log(job), 180, "the first run to end")
    assert versions(alice, job), alice.log(job)
    empty(alice, "dlrun-caches-*")
    (place / "emptied").touch()
    (only,) = alice.ended(job, within=300)
    assert only["state"] == "completed", alice.log(job)
    assert cold_starts(alice, job) == [None]
    for rank in range(6):
        assert of_program(place / f"logs/rank-{rank}.log") == ["compiled one", "found one"]


def test_what_a_role_on_other_nodes_compiles_is_saved_at_the_signal_to_save(alice):
    """While it runs on: its script is on the first node, where the other role runs."""
    empty(alice)
    held = [*bash(f"trap '' USR1\n{HOLD}"), str(PYTHON / "python")]
    job = alice.submit(
        {
            "roles": {
                "judge": {"command": bash("sleep 600"), "ranks_per_node": 1, "cpus_per_rank": 1},
                "train": {
                    "command": [*held, "one"], "nodes": 2, "ranks_per_node": 2, "cpus_per_rank": 1, "ends": True,
                },
            },
            "resources": {"walltime": "3m"},
            "checkpoint": {"signal": "USR1", "before_end": "150s"},
            "caches": "auto",
        }
    )  # fmt: skip
    await_true(lambda: versions(alice, job), 120, "an archive")
    assert alice.state(job)[0]["state"] == "running", alice.log(job)
    (alice.job_dir(job) / "roles/train/go").touch()
    alice.ended(job, within=120)


def test_roles_on_all_nodes_keep_what_they_compile(alice):
    """The script of both runs on the first node; the ranks of one are on the others."""
    program = [str(PYTHON / "python"), "compile.py"]
    roles = {
        "judge": {
            "framework": "torch",
            "command": [*program, "one"],
            "ranks_per_node": 1,
            "cpus_per_rank": 1,
        },
        "train": {"command": [*program, "two"], "nodes": 2, "ranks_per_node": 2, "cpus_per_rank": 1},
    }
    said, cold = [], []
    for _ in range(2):
        empty(alice)
        job = alice.submit({"roles": roles, "resources": {"walltime": "5m"}, "caches": "auto"})
        (only,) = alice.ended(job)
        assert only["state"] == "completed", alice.log(job)
        cold.append(cold_starts(alice, job))
        place = alice.job_dir(job) / "roles"
        said.append([of_program(log) for log in sorted(place.glob("*/logs/rank-*.log"))])
    logs = [log.read_text() for log in place.glob("*/logs/job.log")]
    assert said == [[["compiled one"], *[["compiled two"]] * 4], [["found one"], *[["found two"]] * 4]], logs
    assert cold == [[(1, 1), (2, 2)], [None, None]]


def test_the_points_of_a_job_keep_what_they_compile(alice):
    """On two nodes; in the second job a point may run on another one."""
    names = ["one", "two", "three", "four"]
    script = f'"$0" compile.py "$@"{SETTLED}'
    said, cold = [], []
    for _ in range(2):
        empty(alice)
        job = alice.submit(
            {
                "command": [*bash(script), str(PYTHON / "python"), "{{ what }}"],
                "sweep": {"nodes": 2, "points_per_node": 2, "what": names},
                "resources": {"ranks_per_node": 1, "cpus_per_rank": 1, "walltime": "5m"},
                "caches": "auto",
            }
        )
        ended = alice.ended(job)
        assert {one["state"] for one in ended} == {"completed"}, alice.log(job)
        cold.append(cold_starts(alice, job))
        points = [alice.job_dir(job) / "points" / str(point) / "logs" for point in range(4)]
        said.append([of_program(logs / "rank-0.log") for logs in points])
    logs = [(logs / "job.log").read_text() for logs in points]
    assert said == [[[f"{word} {name}"] for name in names] for word in ("compiled", "found")], logs
    assert cold == [[(1, 1)] * 4, [None] * 4]


@pytest.mark.parametrize("fault", ["damaged", "another user's", "a node that fails"])
def test_a_job_starts_without_the_store(alice, fault):
    job, said = run(alice, "one")
    (version,) = versions(alice, job)
    if fault == "damaged":
        content = bytearray((version / "cache.tar").read_bytes())
        content[2048] ^= 1
        (version / "cache.tar").write_bytes(content)
        expected = ["compiled one"], "is damaged, and left aside"
    elif fault == "another user's":
        os.chown(version / "cache.tar", 12345, -1)
        expected = ["compiled one"], "belongs to another user (uid 12345)"
    else:  # while it saves: what it has written so far stays hidden
        left = version.parent / f".{version.name[:-13]}-77.new"
        left.mkdir()
        (left / "cache.tar").write_bytes((version / "cache.tar").read_bytes()[:700])
        os.chown(left, version.stat().st_uid, -1)
        expected = ["found one"], "the nodes begin with the compiled entries"
    job, said = run(alice, "one")
    assert said == [expected[0]] * 6, alice.log(job)
    assert expected[1] in alice.log(job)
    job, said = run(alice, "one", "two")
    assert said == [["found one", "compiled two"]] * 6, alice.log(job)
    assert not list(version.parent.glob(".x86*77.new")), "removed by the next that saves"
