"""`examples/policy`, a training that learns from servers of its model and a judge, on each scheduler: it learns, and its ends.

What ends it is forced on each: a server that hangs, a port that another program has, a judge that is killed, a training
that fails, and the walltime, after which the job goes on from its checkpoint.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import (
    Cluster,
    ClusterSpec,
    NodeType,
    Partition,
    test_flux,
    test_roles_pbs,
    why_no_flux,
    why_no_pbs,
    why_not,
)
from tests.cluster.hosts import await_true
from tests.cluster.jobs import PYTHON, SLURM_SITE, User

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
    pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed"),
]

EXAMPLE = Path(__file__).parents[2] / "examples" / "policy"
THREE = (NodeType(count=3),)
WORK = (Partition(name="work", default=True, max_time="1-00:00:00"),)
QUICK = ("KillWait=5", "OverTimeLimit=0")
GROUNDS: Mapping[str, tuple[ClusterSpec, Mapping[str, Any]]] = {
    "slurm": (
        ClusterSpec(node_types=THREE, partitions=WORK, slurm_conf=QUICK),
        SLURM_SITE,
    ),
    "slurm-components": (
        ClusterSpec(
            node_types=(NodeType(count=1), NodeType(name="c", count=2, sockets=1, cores=2)),
            partitions=(
                Partition(name="work", default=True, node_types=("n",)),
                Partition(name="thin", node_types=("c",)),
            ),
            slurm_conf=QUICK,
        ),
        {
            **SLURM_SITE,
            "partitions": {"work": {"default": True, "node_type": "n"}, "thin": {"node_type": "thin"}},
            "node_types": {
                "n": {"topology": {"packages": 2, "cores": 4}},
                "thin": {"topology": {"packages": 1, "cores": 2}},
            },
        },
    ),
    "pbs": (ClusterSpec(scheduler="pbs", node_types=THREE, partitions=WORK, sshd=True), test_roles_pbs.SITE),
    "flux": (ClusterSpec(scheduler="flux", node_types=THREE, partitions=WORK, sshd=True), test_flux.SITE),
}
ABSENT = {"pbs": why_no_pbs(), "flux": why_no_flux()}
PORT = "{{ role.model.port }}"
LONG = {"POLICY_STEPS": "1000000"}
"""The training runs until something ends it."""
TAKEN = ["bash", "-c", f"python3 -m http.server {PORT} & sleep 2; exec python3 model.py --port {PORT}"]
"""Another program listens at the port of the role, which the servers then find in use."""


ON_ALL = pytest.mark.parametrize("ground", GROUNDS, indirect=True, scope="module")
ON_EACH = pytest.mark.parametrize("ground", ["slurm", "pbs", "flux"], indirect=True, scope="module")
"""One of each scheduler: the ends of jobs with nodes of several types are in `test_role_components`."""


@pytest.fixture(scope="module")
def ground(request):
    if ABSENT.get(request.param):
        pytest.skip(ABSENT[request.param])
    return request.param


@pytest.fixture(scope="module")
def alice(ground):
    spec, site = GROUNDS[ground]
    with Cluster(spec, name=f"policy-{ground}-{os.getpid()}") as running:
        user = User(running, dict(site))
        for file in EXAMPLE.iterdir():
            user.write(file.name, file.read_text())
        yield user


def submit(alice, ground, name: str, **more: Any) -> str:
    """Submit the example with other values of keys, `.` in their names written `__`; the job's id."""
    keys = {
        "name": name,
        "environment.venv": str(PYTHON.parent),
        "resources.walltime": "5m",
        **({"roles.model.node_type": "thin"} if ground == "slurm-components" else {}),
        **{key.replace("__", "."): value for key, value in more.items()},
    }
    (alice.directory / "policy.pt").unlink(missing_ok=True)
    words = [word for key, value in keys.items() for word in ("--set", f"{key}={json.dumps(value)}")]
    return alice.dlrun("submit", "spec.yaml", *words, "--parsable").stdout.strip()


def log(alice, job: str, role: str = "train", rank: int = 0) -> str:
    path = alice.job_dir(job) / "roles" / role / "logs" / f"rank-{rank}.log"
    return path.read_text() if path.exists() else ""


def begun(alice, job: str) -> list[str]:
    """Wait until it trains; the nodes of training and servers."""
    await_true(lambda: "step 10 " in log(alice, job), 180, "the training to begin")
    record = {
        role: json.loads((alice.job_dir(job) / f"roles/{role}/role.json").read_text())["hosts"]
        for role in ("train", "model", "judge")
    }
    assert record["judge"] == record["train"]
    assert len({*record["train"], *record["model"]}) == 3
    return record["train"] + record["model"]


@ON_ALL
def test_it_learns(alice, ground):
    job = submit(alice, ground, name="learns")
    nodes = begun(alice, job)
    (run,) = alice.ended(job, 240)
    assert (run["state"], run["exit_code"]) == ("completed", 0), alice.log(job) + log(alice, job)
    rewards = [float(mean) for mean in re.findall(r"step \d+ mean reward ([\d.]+)", log(alice, job))]
    assert len(rewards) == 10
    assert rewards[-1] > rewards[0]
    for server in (0, 1):
        assert "weights 11\n" in log(alice, job, "model", server), "those of the start, and each ten steps"
    alice.left_nothing(job, nodes)


@ON_EACH
def test_a_server_that_hangs(alice, ground):
    job = submit(alice, ground, name="hangs", environment__variables=LONG)
    nodes = begun(alice, job)
    alice.cluster.on(nodes[2], ["pkill", "-STOP", "-f", "model.py"])
    (run,) = alice.ended(job, 90)
    assert run["state"] == "failed", alice.log(job)
    why = alice.why(job)
    assert why["role"] == "train", why
    assert f"{nodes[2]}:" in why["means"], why
    alice.left_nothing(job, nodes)


@ON_EACH
def test_a_port_that_is_taken(alice, ground):
    job = submit(alice, ground, name="taken", roles__model__command=TAKEN)
    (run,) = alice.ended(job, 120)
    assert run["state"] == "failed", alice.log(job)
    why = alice.why(job)
    assert (why["role"], why["cause"]) == ("model", "port-in-use"), why
    alice.left_nothing(job, set(alice.cluster.status()) - {"login"})


@ON_EACH
def test_a_judge_that_is_killed(alice, ground):
    job = submit(alice, ground, name="judged", environment__variables=LONG)
    nodes = begun(alice, job)
    alice.cluster.on(nodes[0], ["pkill", "-KILL", "-f", "judge.py"])
    (run,) = alice.ended(job, 90)
    assert run["state"] == "failed", alice.log(job)
    why = alice.why(job)
    assert (why["role"], why["cause"], why["first"]["host"]) == ("judge", "killed", nodes[0]), why
    alice.left_nothing(job, nodes)


@ON_EACH
def test_a_training_that_fails(alice, ground):
    job = submit(alice, ground, name="fails", environment__variables=LONG)
    nodes = begun(alice, job)
    alice.cluster.on(nodes[0], "kill -ABRT $(pgrep -f 'train.py' | head -n 1)", user="root")
    (run,) = alice.ended(job, 90)
    assert run["state"] == "failed", alice.log(job)
    why = alice.why(job)
    assert (why["role"], why["cause"]) == ("train", "abort"), why
    alice.left_nothing(job, nodes)


@ON_EACH
def test_it_goes_on_after_the_walltime(alice, ground):
    job = submit(
        alice,
        ground,
        name="late",
        resources__walltime="2m",
        checkpoint__before_end="60s",
        on_failure__requeue=1,
        environment__variables=LONG,
    )
    await_true(lambda: "another start of the job follows" in alice.log(job), 240, "the next start")
    await_true(lambda: "continues after step" in log(alice, job), 150, "the checkpoint to be read")
    shown = log(alice, job)
    saved, read = (re.findall(rf"{words} after step (\d+)", shown) for words in ("saved", "continues"))
    assert saved == read[:1], shown + alice.log(job)
    alice.dlrun("cancel", job)
    alice.ended(job, 90)
    alice.left_nothing(job, set(alice.cluster.status()) - {"login"})
