"""Whole jobs while another user of the same nodes does what he can: the results are right, in time, and he has got nothing."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, why_not
from tests.cluster.hosts import await_true
from tests.cluster.jobs import User

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.skipif(bool(why_not()), reason=why_not())]

SITE = {
    "name": "test-attackers",
    "scheduler": {"type": "slurm", "version": "22.05"},
    "launcher": {"name": "srun"},
    "partitions": {"debug": {"default": True, "node_type": "n"}},
    "node_types": {"n": {"topology": {"packages": 2, "cores": 4}}},
    "storage": {"node_local": {"path": "/tmp", "size": "10GB"}},
}
PAIR = {"nodes": 2, "ranks_per_node": 2, "exclusive": True, "walltime": "10m"}
ATTACKER, OBSERVER = (Path(__file__).with_name(name) for name in ("attacker.py", "observer.py"))
SECURITY = Path(__file__).parents[2] / "docs" / "concepts" / "security.md"
HOSTS = ("n1", "n2", "login")
STAGING, VERIFY, CHECKS, HOROVOD = (
    "staging on several nodes",
    "`dlrun verify`",
    "node checks",
    "Horovod with Gloo",
)
LISTENERS = {" stage": STAGING, "check-rank": VERIFY, "node_checks.py": CHECKS, "hvd_rendezvous": HOROVOD}
"""Words of a program's command line, and how the table of open ports in docs/concepts/security.md names it."""
NOISES = 8
"""The kinds of noise that an attacker sends to a port, one after the other."""
TRAIN = """
import hashlib, os, sys, time
data, results, go_on = sys.argv[1:]
while not os.path.exists(go_on):
    time.sleep(0.1)
whole = hashlib.sha256()
for name in sorted(os.listdir(data)):
    with open(os.path.join(data, name), "rb") as file:
        whole.update(name.encode() + file.read())
assert hashlib.sha1(os.environ["TOKEN"].encode()).hexdigest().startswith("922f61c9")
with open(os.path.join(results, "rank-" + os.environ["DLRUN_RANK"]), "w") as file:
    file.write(whole.hexdigest())
"""
MEET = """
import os, time, urllib.error, urllib.request
rank, size = int(os.environ["HOROVOD_RANK"]), int(os.environ["HOROVOD_SIZE"])
base = "http://%s:%s/t/" % (os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"], os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"])
def ask(key, data=None):
    for _ in range(600):
        try:
            asked = urllib.request.Request(base + key, data, method="PUT" if data else "GET")
            return urllib.request.urlopen(asked, timeout=5).read()
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise SystemExit("no answer")
for turn in range(20):
    ask("%d-%d" % (turn, rank), b"%d" % (100 * turn + rank))
    print(turn, *(ask("%d-%d" % (turn, other)).decode() for other in range(size)), ask("0-0").decode())
"""


@pytest.fixture(scope="module")
def alice():
    spec = ClusterSpec(node_types=(NodeType(count=2, link_mbit=200),))
    with Cluster(spec, name=f"attackers-{os.getpid()}") as running:
        yield User(running, SITE)


@contextlib.contextmanager
def attackers(alice: User, shared: tuple[Path, ...] = (), **modes: str) -> Iterator[Path]:
    """Bob on these hosts, until the block's end; the directory with what he has done. Root sees on every host what listens."""
    place = alice.cluster.shared / "scratch" / f"bob-{time.monotonic_ns()}"
    place.mkdir()
    place.chmod(0o777)
    for program in (ATTACKER, OBSERVER):
        (place / program.name).write_text(program.read_text())
    begun = [
        alice.cluster.popen(host, ["python3", f"{place}/observer.py", f"{place}", host], user="root")
        for host in HOSTS
    ]
    begun += [
        alice.cluster.popen(
            host, ["python3", f"{place}/attacker.py", f"{place}", host, mode, *map(str, shared)], user="bob"
        )
        for host, mode in modes.items()
    ]
    try:
        yield place
    finally:
        for process in begun:
            alive = process.poll() is None
            os.killpg(process.pid, signal.SIGKILL)
            printed = process.communicate(timeout=60)[1]
            assert alive, printed


def listeners(place: Path) -> set[str]:
    """What listened while the attackers were there, by the rows of the table of open ports; fails for one that is not there."""
    found, table = set(), SECURITY.read_text()
    assert all(f"| {row} |" in table for row in LISTENERS.values())
    for path in place.glob("ports-*"):
        for line in path.read_text().splitlines():
            protocol, _, program = line.split(" ", 2)
            rows = [row for words, row in LISTENERS.items() if words in program]
            assert protocol == "tcp", line
            assert rows, f"{path.name}: {line}: not in docs/concepts/security.md"
            found.add(rows[0])
    return found


def has_tried(place: Path, what: str, hosts: tuple[str, ...], enough: int) -> bool:
    """Whether the attackers of these hosts have counted enough attempts of this kind."""
    files = [place / f"{what}-{host}" for host in hosts]
    return all(file.exists() and int(file.read_text()) >= enough for file in files)


def end_of(alice: User, job: str) -> str:
    """The state of a job, once it has ended, or after five minutes."""
    deadline = time.monotonic() + 300
    while (state := alice.state(job)[0]["state"]) in (
        "pending",
        "running",
        "ending",
    ) and time.monotonic() < deadline:
        time.sleep(2)
    return str(state)


def squat(alice: User) -> None:
    """Bob has every name in /tmp that can be known before the job."""
    names = " ".join(f"/tmp/{name}" for name in ("dlrun-alice", "dlrun-ports-7001", "dlrun-7001"))
    for node in alice.cluster.spec.nodes:
        done = alice.cluster.on(
            node, f"rm -rf {names} && mkdir -m 777 {names} && chown bob {names}", user="root"
        )
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("squatted", [False, True], ids=["", "squatted"])
def test_a_staged_job_with_results_and_a_secret(alice, squatted):
    if squatted:
        squat(alice)
    source, to = alice.directory / f"set-{squatted}", alice.directory / f"to-{squatted}"
    source.mkdir()
    to.mkdir()
    to.chmod(0o777)
    wanted = hashlib.sha256()
    for number in range(160):  # 6 s at 200 Mbit/s, in which attackers find and meet the listeners
        data = os.urandom(1 << 20)
        (source / f"{number:03}").write_bytes(data)
        wanted.update(f"{number:03}".encode() + data)
    go_on = alice.directory / f"go-on-{squatted}"
    with attackers(alice, n1="all", n2="all", login="all") as place:
        job = alice.submit(
            {
                "command": ["python3", "-c", TRAIN, "{{ data.set }}", "{{ results }}", str(go_on)],
                "resources": PAIR,
                "placement": {"memory": "none"},
                "data": {"set": {"source": str(source), "strategy": "copy"}},
                "results": {"to": str(to)},
                "secrets": {"TOKEN": {"env": "TOKEN"}},
                "verify": "fail",
            },
            env={"TOKEN": "OPENSESAME"},
        )
        # The training lasts until the attackers of its nodes, which have less of the cores, have had their time.
        await_true(lambda: has_tried(place, "tried", ("n1", "n2"), 50), 240, "the attackers of both nodes")
        go_on.touch()
        state = end_of(alice, job)
        logs = {path.name: path.read_text() for path in (alice.job_dir(job) / "logs").glob("*.log")}
        assert state == "completed", logs
    assert {path.name: path.read_text() for path in to.glob("rank-*")} == {
        f"rank-{rank}": wanted.hexdigest() for rank in range(4)
    }
    assert not (place / "won").exists(), (place / "won").read_text()
    assert listeners(place) >= {STAGING}
    assert has_tried(place, "met", HOSTS, NOISES)
    assert ("ports are taken without locks" in logs["job.log"]) == squatted, logs
    assert not any("Traceback" in text for text in logs.values())


def test_the_rendezvous_of_horovod_hears_the_jobs_hosts_alone(alice):
    with attackers(alice, login="connect") as place:
        job = alice.submit({"framework": "horovod", "command": ["python3", "-c", MEET], "resources": PAIR})
        state = end_of(alice, job)
        logs = {path.name: path.read_text() for path in (alice.job_dir(job) / "logs").glob("*.log")}
        assert state == "completed", logs
    turns = [" ".join(map(str, (turn, *(100 * turn + rank for rank in range(4)), 0))) for turn in range(20)]
    for rank in range(4):
        assert logs[f"rank-{rank}.log"].splitlines()[-20:] == turns
    assert not (place / "won").exists(), (place / "won").read_text()
    assert has_tried(place, "met", ("login",), NOISES)
    assert listeners(place) == {HOROVOD}


def test_verify_names_each_rank_as_it_is(alice):
    spec = {
        "name": "v",
        "framework": "torch",
        "command": ["x"],
        "resources": PAIR,
        "placement": {"memory": "none"},
    }
    alice.write("verify.yaml", spec)
    with attackers(alice, n1="all", n2="all", login="all") as place:
        found = json.loads(alice.dlrun("verify", "verify.yaml", "--json", timeout=400).stdout)["verify"]
    assert [(one["report"]["rank"], one["report"]["sum"], one["differences"]) for one in found["ranks"]] == [
        (rank, 10, []) for rank in range(4)
    ]
    assert not (place / "won").exists(), (place / "won").read_text()
    assert listeners(place) == {VERIFY}


def test_checks_of_nodes_while_strangers_connect(alice):
    alice.write("site.yaml", {**SITE, "node_checks": ["true"]})
    try:
        with attackers(alice, n1="all", n2="all", login="all") as place:
            one_spare = PAIR | {
                "nodes": 1,
                "spare_nodes": 1,
            }  # nodes compare their clocks where there is a choice
            job = alice.submit({"command": ["python3", "-c", "print('trained')"], "resources": one_spare})
            state = end_of(alice, job)
    finally:
        alice.write("site.yaml", SITE)
    logs = {path.name: path.read_text() for path in (alice.job_dir(job) / "logs").glob("*.log")}
    assert state == "completed", logs
    assert [logs[f"rank-{rank}.log"].splitlines()[-1] for rank in range(2)] == ["trained"] * 2
    assert listeners(place) == {CHECKS}
    assert not (place / "won").exists(), (place / "won").read_text()


def decoys(alice: User, jobs: Path, job: str, victim: Path) -> None:
    """What bob puts beside alice's jobs: directories with the names of jobs, and records that name other users."""
    record = json.dumps(
        {
            "version": 1,
            "scheduler": "slurm",
            "job_id": "--user=alice",
            "site": "s",
            "name": "x",
            "submitted": 9e9,
        }
    )
    made = f"""
cd {jobs} && mkdir -m 755 latest {job} test-99999999-999999-ffff && ln -s {victim} link && ln -s /etc other
for name in latest {job} test-99999999-999999-ffff; do
  printf '%s' {json.dumps(record)!r} >$name/submission.json
  printf '#!/bin/bash\ntouch {jobs}/ran-as-$(id -un)\n' >$name/job.sh
done
mv -T {victim} {jobs}/moved 2>/dev/null && touch {jobs}/was-moved; rm -rf {victim} 2>/dev/null; true
"""
    done = alice.cluster.on("login", made, user="bob")
    assert done.returncode == 0, done.stderr


def test_jobs_in_a_directory_that_all_users_share(alice):
    """Others may make what they like there, as in /tmp; a job's own directory stays its user's."""
    jobs = alice.cluster.shared / "scratch" / f"jobs-{time.monotonic_ns()}"
    jobs.mkdir()
    jobs.chmod(0o1777)
    there = {"DLRUN_JOBS": str(jobs)}
    with attackers(alice, (jobs,), n1="all", n2="all", login="all") as place:
        spec = {
            "command": ["python3", "-c", "import time; time.sleep(15); print('trained')"],
            "resources": PAIR,
        }
        path = alice.write("shared.yaml", {"name": "test", "framework": "torch", **spec})
        job = alice.dlrun("submit", str(path), "--parsable", env=there).stdout.strip()
        (directory,) = (one for one in jobs.iterdir() if one.name.startswith("test-"))
        decoys(alice, jobs, job, directory)
        for _ in range(150):
            (found,) = json.loads(alice.dlrun("status", job, "--json", env=there).stdout)["jobs"]
            state = found["runs"][0]["state"]
            if state not in ("pending", "running", "ending"):
                break
            time.sleep(2)
    assert found["directory"] == str(directory)
    assert state == "completed", (directory / "logs/job.log").read_text()
    logs = [(directory / f"logs/rank-{rank}.log").read_text().splitlines()[-1] for rank in range(4)]
    assert logs == ["trained"] * 4
    assert not (place / "won").exists(), (place / "won").read_text()
    assert [one.name for one in jobs.iterdir() if one.name.startswith(("was-moved", "ran-as"))] == []
    listed = json.loads(alice.dlrun("list", "--json", env=there).stdout)["jobs"]
    assert [one["job_id"] for one in listed if one["job_id"]] == [job]
    refused = alice.dlrun("cancel", str(jobs / "latest"), env=there, code=None)
    assert refused.returncode != 0
    assert "no job" in refused.stderr  # a link of another user's to what has no list of dlrun's


def test_top_is_right_while_strangers_connect(alice):
    with attackers(alice, n1="all", n2="all", login="all") as place:
        spec = {
            "command": ["python3", "-c", "import time; print('speed: 7', flush=True); time.sleep(25)"], "resources": PAIR,
            "metrics": {"speed": "speed: ([0-9]+)"},
        }  # fmt: skip
        job = alice.submit(spec)
        printed = alice.dlrun("top", job, "--json", "--every", "0.5", timeout=300).stdout
        state = end_of(alice, job)
    looks = [json.loads(line)["top"] for line in printed.splitlines()]
    assert state == looks[-1]["status"]["state"] == "completed"
    seen = [sorted(rank["rank"] for rank in look["ranks"]) for look in looks]
    assert [f"rank-{rank}" for rank in range(4)] in seen
    assert any(look["metrics"].get("speed", {}).get("value") == 7 for look in looks)
    assert listeners(place) == set()
    assert not (place / "won").exists(), (place / "won").read_text()
