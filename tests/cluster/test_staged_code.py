"""Code on the nodes' own storage, on a real Slurm: what ranks write there comes back, whatever starts and ends them."""

from __future__ import annotations

import os
import re

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, why_not
from tests.cluster.errors import ClusterError
from tests.cluster.hosts import await_true
from tests.cluster.jobs import PYTHON, User
from tests.cluster.staged import PROGRAMS, names

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.skipif(bool(why_not()), reason=why_not())]

SITE = {
    "name": "test-staged-code",
    "scheduler": {"type": "slurm"},
    "launcher": {"name": "srun"},
    "storage": {"node_local": {"path": "/tmp", "size": "10GB"}},
}
TRAIN = """\
import os, shutil, time, pkg.lib
rank, results = os.environ["RANK"], os.environ["DLRUN_RESULTS"]
print(pkg.lib.VERSION, pkg.lib.__file__, flush=True)
os.makedirs(f"saved-{rank}")
shutil.copy2("pkg/lib.py", f"saved-{rank}/lib.py")
with open(f"out-{rank}", "w") as file:
    file.write(rank)
with open(f"{results}/model-{rank}", "w") as file:
    file.write(rank)
open(os.environ["DLRUN_RUN_DIR"] + f"/written-{rank}", "w").close()
while "STAY" in os.environ:
    time.sleep(1)
"""
TWO = {"nodes": 2, "ranks_per_node": 1, "cpus_per_rank": 1, "walltime": "10m"}


@pytest.fixture(scope="module")
def alice():
    spec = ClusterSpec(node_types=(NodeType(count=2),), sshd=True, slurm_conf=("KillWait=60",))
    with Cluster(spec, name=f"staged-code-{os.getpid()}") as running:
        yield User(running, SITE)


@pytest.fixture
def submit(alice):
    """Submit the training with its code on the nodes, which is edited before it starts: (job, directory of its results)."""
    (alice.directory / "pkg").mkdir(exist_ok=True)
    alice.write("pkg/lib.py", "VERSION = 1\n")
    alice.write("train.py", TRAIN)

    def submitted(name, *words, variables=(), **more):
        to = alice.directory / f"results-{name}"
        environment = {
            "variables": {"PYTHONDONTWRITEBYTECODE": "1", **dict(variables)},
            **more.pop("environment", {}),
        }
        spec = {"command": ["python3", "train.py"], "code": {"stage": True}, "resources": TWO, "hold": True,
                "results": {"to": str(to), "before_end": "1m"}, "environment": environment, **more}  # fmt: skip
        job = alice.submit(spec, *words)
        alice.write("pkg/lib.py", "VERSION = 2\n")
        alice.dlrun("release", job)
        return job, to

    return submitted


def brought(alice, job, to):
    """What the ranks wrote is there, by its names, and the code is not; nothing is left on the nodes."""
    place = alice.job_dir(job)
    await_true(lambda: "ended with exit code" in alice.log(job), 60, "the job's script to end")
    log = alice.log(job)
    printed = "".join(path.read_text() for path in (place / "logs").glob("*-[01].log"))
    files = re.findall(r"(\d) (/tmp/dlrun-alice/\.results-code-\S+/work/pkg/lib\.py)$", printed, re.MULTILINE)
    assert [version for version, _ in files] == ["1", "1"], printed
    for rank in "01":
        assert (place / "work" / f"out-{rank}").read_text() == rank
        assert (place / "work" / f"saved-{rank}" / "lib.py").read_text() == "VERSION = 1\n"
    assert sorted(path.name for path in to.iterdir()) == ["model-0", "model-1"]
    assert f"copying what the ranks wrote beside the code to {place}/work" in log
    named = log.split(f"the program wrote to {place}/work: ")[1].splitlines()[0]
    assert set(named.split(", ")) == {"out-0", "out-1", "saved-0/lib.py", "saved-1/lib.py"}
    tree = (place / "code" / "snapshot").read_text().splitlines()[0]
    for name in ("train.py", "pkg/lib.py"):
        assert (place / "work" / name).samefile(f"{tree}/{name}"), "the code has not come back"
    for node in alice.cluster.spec.nodes:
        assert not [name for name in names(alice, node) if name.startswith((".results", "code"))]


@pytest.mark.parametrize("launcher", list(PROGRAMS))
def test_a_cancelled_job(alice, submit, launcher):
    if alice.cluster.on("login", ["which", PROGRAMS[launcher]]).returncode:
        pytest.skip(f"{PROGRAMS[launcher]} is not installed")
    alice.write("by.yaml", {**SITE, "launcher": {"name": launcher, "program": PROGRAMS[launcher]}})
    job, to = submit(launcher, "--site", "by.yaml", variables={"STAY": "1"})
    place = alice.job_dir(job)
    await_true(lambda: len(list(place.glob("written-*"))) == 2, 120, "both ranks to write")
    if launcher != "ssh":
        waits = "test $(pgrep -u alice -fc '/stage.sh keep$') -ge 2"
        for node in alice.hosts(job):
            await_true(lambda on=node: alice.cluster.on(on, waits).returncode == 0, 60, "the standby to wait")
    alice.dlrun("cancel", job)
    assert alice.ended(job)[0]["state"] == "cancelled"
    brought(alice, job, to)


def test_the_ranks_of_torchrun(alice, submit):
    job, to = submit("torchrun", torch={"agent": True}, environment={"venv": str(PYTHON.parent)})
    (run,) = alice.ended(job)
    assert run["state"] == "completed", alice.log(job)
    brought(alice, job, to)


def test_a_job_that_the_scheduler_requeues(alice, submit):
    """The second start runs the same code, and finds what the first wrote."""
    script = "import os; print(os.path.exists('out-0'), flush=True)\n"
    alice.write(
        "train.py",
        script
        + TRAIN.replace("os.makedirs(", "shutil.rmtree(f'saved-{rank}', ignore_errors=True)\nos.makedirs("),
    )
    job, to = submit("requeued", variables={"STAY": "1"}, on_failure={"requeue": 1})
    place = alice.job_dir(job)
    await_true(lambda: len(list(place.glob("written-*"))) == 2, 120, "both ranks to write")
    for path in place.glob("written-*"):
        path.unlink()
    alice.cluster.on("login", ["scontrol", "requeue", job], user="root", check=True)
    try:
        await_true(lambda: len(list(place.glob("written-*"))) == 2, 240, "both ranks to write again")
    except ClusterError as error:
        logs = "\n".join(
            f"{path.name}\n{path.read_text()}" for path in sorted((place / "logs").glob("*.log"))
        )
        msg = f"{error}\n{alice.state(job)}\n{logs}"
        raise ClusterError(msg) from None
    starts = [
        line for line in (place / "logs" / "rank-0.log").read_text().splitlines() if line in ("True", "False")
    ]
    assert starts == ["False", "True"]
    alice.dlrun("cancel", job)
    assert alice.ended(job)[0]["state"] == "cancelled"
    assert sorted(path.name for path in to.iterdir()) == ["model-0", "model-1"]
    assert (place / "work" / "out-1").read_text() == "1"
