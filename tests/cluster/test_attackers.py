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
ATTACKER = Path(__file__).with_name("attacker.py")
TRAIN = """
import hashlib, os, sys
data, results = sys.argv[1:]
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
def attackers(alice: User, **modes: str) -> Iterator[Path]:
    """Bob on these hosts, until the block's end; the directory with what he has done."""
    place = alice.cluster.shared / "scratch" / f"bob-{time.monotonic_ns()}"
    place.mkdir()
    place.chmod(0o777)
    (place / "attacker.py").write_text(ATTACKER.read_text())
    words = ["python3", str(place / "attacker.py"), str(place)]
    begun = [alice.cluster.popen(host, [*words, host, mode], user="bob") for host, mode in modes.items()]
    try:
        yield place
    finally:
        for process in begun:
            alive = process.poll() is None
            os.killpg(process.pid, signal.SIGKILL)
            said = process.communicate(timeout=60)[1]
            assert alive, said


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
    for number in range(64):
        data = os.urandom(1 << 20)
        (source / f"{number:03}").write_bytes(data)
        wanted.update(f"{number:03}".encode() + data)
    with attackers(alice, n1="all", n2="all", login="all") as place:
        job = alice.submit(
            {
                "command": ["python3", "-c", TRAIN, "{{ data.set }}", "{{ results }}"],
                "resources": PAIR,
                "placement": {"memory": "none"},
                "data": {"set": {"source": str(source), "strategy": "copy"}},
                "results": {"to": str(to)},
                "secrets": {"TOKEN": {"env": "TOKEN"}},
                "verify": "fail",
            },
            env={"TOKEN": "OPENSESAME"},
        )
        state = end_of(alice, job)
        logs = {path.name: path.read_text() for path in (alice.job_dir(job) / "logs").glob("*.log")}
        assert state == "completed", logs
    assert {path.name: path.read_text() for path in to.glob("rank-*")} == {
        f"rank-{rank}": wanted.hexdigest() for rank in range(4)
    }
    assert not (place / "won").exists(), (place / "won").read_text()
    assert any(path.read_text() for path in place.glob("ports-n*")), "nothing listened: nobody was attacked"
    assert all(int((place / f"met-{host}").read_text()) > 50 for host in ("n1", "n2", "login"))
    assert all(int((place / f"tried-{host}").read_text()) > 50 for host in ("n1", "n2"))
    assert ("ports are taken without locks" in logs["job.log"]) == squatted, logs
    assert not any("Traceback" in text for text in logs.values())


def test_the_rendezvous_of_horovod_hears_the_jobs_hosts_alone(alice):
    with attackers(alice, n1="watch", n2="watch", login="connect") as place:
        job = alice.submit({"framework": "horovod", "command": ["python3", "-c", MEET], "resources": PAIR})
        state = end_of(alice, job)
        logs = {path.name: path.read_text() for path in (alice.job_dir(job) / "logs").glob("*.log")}
        assert state == "completed", logs
    turns = [" ".join(map(str, (turn, *(100 * turn + rank for rank in range(4)), 0))) for turn in range(20)]
    for rank in range(4):
        assert logs[f"rank-{rank}.log"].splitlines()[-20:] == turns
    assert not (place / "won").exists(), (place / "won").read_text()
    assert int((place / "met-login").read_text()) > 50


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
        said = json.loads(alice.dlrun("verify", "verify.yaml", "--json", timeout=400).stdout)["verify"]
    assert [(one["report"]["rank"], one["report"]["sum"], one["differences"]) for one in said["ranks"]] == [
        (rank, 10, []) for rank in range(4)
    ]
    assert not (place / "won").exists(), (place / "won").read_text()
    assert any(path.read_text() for path in place.glob("ports-n*")), "nothing listened: nobody was attacked"
