"""A snapshot of the code in containers, on a real Slurm: whatever is mounted, the code that was submitted runs there.

bubblewrap stands in for Apptainer, and for enroot with pyxis: a container has of its host what is mounted, and nothing else.
"""

from __future__ import annotations

import json
import os

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, apptainer, why_not
from tests.cluster.hosts import await_true
from tests.cluster.jobs import User

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
    pytest.mark.needs("git", "bwrap"),
]

SITE = {
    "name": "test-code-in-containers",
    "scheduler": {"type": "slurm"},
    "launcher": {"name": "srun"},
    "storage": {"node_local": {"path": "/tmp", "size": "10GB"}},
}
TRAIN = """\
import os, sys
sys.path.insert(0, "../lib")
import layer
assert os.path.exists("/image/inside") and not os.path.exists("/etc/passwd"), "it runs in the image"
rank = os.environ["RANK"]
print("version", layer.VERSION, open("../version").read().strip(), os.getcwd(), flush=True)
for place in ("made", sys.argv[1], sys.argv[2]):
    with open(f"{place}-{rank}", "w") as file:
        file.write(rank)
"""
COMMAND = ["python3", "train.py", "{{ run_dir }}/saved"]
TWO = {"nodes": 2, "ranks_per_node": 1, "cpus_per_rank": 1, "walltime": "5m"}


@pytest.fixture(scope="module")
def alice():
    with Cluster(ClusterSpec(node_types=(NodeType(count=2),)), name=f"boxed-code-{os.getpid()}") as running:
        yield User(running, apptainer.with_it(SITE))


@pytest.fixture
def repository(alice):
    """A working tree in which the training works in `train/` and uses what is beside it."""
    place = alice.directory / "project"
    alice.cluster.on("login", ["rm", "-rf", str(place)], user="root", check=True)
    for name, text in (
        ("train/train.py", TRAIN),
        ("lib/layer.py", "VERSION = 1\n"),
        ("version", "1\n"),
        (".gitignore", "*.pyc\n/data/\n"),
        ("data/set", "data\n"),
    ):
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    line = "git init -q . && git add . && git -c user.name=n -c user.email=e@x commit -qm first"
    alice.cluster.on("login", ["chown", "-R", alice.name, str(place)], user="root", check=True)
    alice.cluster.on("login", ["bash", "-c", line], user=alice.name, cwd=str(place), check=True)
    return place


def edit(repository):
    (repository / "lib/layer.py").write_text("VERSION = 2\n")
    (repository / "version").write_text("2\n")


def image(alice, runtime, **more):
    """(container, site) of a job with this runtime."""
    found = {
        "image": str(apptainer.install(alice.cluster.home(alice.name), alice.directory)),
        "runtime": runtime,
    }
    if runtime == "enroot":
        program = str(alice.cluster.home(alice.name) / "bin/srun-with-pyxis")
        alice.write(
            "site.yaml", {**apptainer.with_it(SITE), "launcher": {"name": "srun", "program": program}}
        )
    else:
        alice.write("site.yaml", apptainer.with_it(SITE))
    return {**found, **more}


@pytest.mark.parametrize("code", ["snapshot", {"stage": True}], ids=["shared", "staged"])
@pytest.mark.parametrize("runtime", ["apptainer", "enroot"])
def test_the_code_that_was_submitted_runs_wherever_the_container_has_it(alice, repository, runtime, code):
    """At its own path, or where the user mounts the repository; what it writes is where it is without a container."""
    binds = [f"{repository}:/ws", f"{repository}/data:/set", f"{alice.directory}:/all"]
    common = {"directory": str(repository / "train"), "resources": TWO, "code": code, "hold": True}
    jobs = []
    for more in ({}, {"binds": binds, "workdir": "/ws/train"}, {"workdir": str(repository / "train")}):
        command = [*COMMAND, f"{{{{ submit_dir }}}}/out{len(jobs)}"]
        environment = {"container": image(alice, runtime, **more)}
        jobs.append(alice.submit({**common, "command": command, "environment": environment}))
    edit(repository)
    alice.dlrun("release", *jobs)
    for number, (job, at) in enumerate(zip(jobs, (None, "/ws/train", None), strict=True)):
        (run,) = alice.ended(job)
        place = alice.job_dir(job)
        log = alice.log(job) + alice.log(job, "rank-0") + alice.log(job, "rank-1")
        assert run["state"] == "completed", log
        await_true(lambda job=job: "ended with exit code" in alice.log(job), 60, "the job's script to end")
        for rank in "01":
            (line,) = [
                line for line in alice.log(job, f"rank-{rank}").splitlines() if line.startswith("version")
            ]
            _, imported, read, cwd = line.split()
            assert (imported, read) == ("1", "1"), line
            assert cwd == (at or cwd)
            assert cwd.endswith("/train")
            assert not cwd.startswith(str(repository)), "a copy of the code"
            for path in (place / "work/train/made", repository / f"train/out{number}", place / "saved"):
                assert path.with_name(f"{path.name}-{rank}").read_text() == rank
        assert f"train/made-{rank}" in alice.log(job).split("the program wrote to ")[1].splitlines()[0]


@pytest.mark.parametrize("runtime", ["apptainer", "enroot"])
def test_the_directory_is_gone_when_the_job_starts(alice, repository, runtime):
    script = 'cd "$DLRUN_WORK" && python3 -c "import sys; sys.path[0] = \'../lib\'; import layer; print(layer.VERSION)"'
    common = {"directory": str(repository / "train"), "resources": TWO, "hold": True, "code": "snapshot"}
    job = alice.submit({**common, "run": script, "environment": {"container": image(alice, runtime)}})
    alice.cluster.on("login", ["rm", "-rf", str(repository)], user="root", check=True)
    alice.dlrun("release", job)
    (run,) = alice.ended(job)
    assert run["state"] == "completed", alice.log(job) + alice.log(job, "rank-0")
    assert [alice.log(job, f"rank-{rank}") for rank in (0, 1)] == ["1\n"] * 2


def test_roles_in_containers_are_in_one_copy(alice, repository):
    """Each role has a job directory of its own inside that of the job, beside the copy."""
    container = {"container": image(alice, "apptainer")}
    roles = {
        "judge": {
            "run": "cat version >judged; touch up; exec sleep 600",
            "ready": {"file": "up", "within": "2m"},
        },
        "train": {"run": "cat judged version", "needs": ["judge"]},
    }
    spec = {
        "name": "roles", "directory": str(repository), "resources": {"walltime": "5m"}, "code": "snapshot", "hold": True,
        "roles": {name: {"framework": "mpi", **role, "environment": container} for name, role in roles.items()},
    }  # fmt: skip
    path = alice.write("roles.yaml", json.dumps(spec))
    job = alice.dlrun("submit", str(path), "--parsable").stdout.strip()
    edit(repository)
    alice.dlrun("release", job)
    (run,) = alice.ended(job)
    place = alice.job_dir(job)
    logs = "".join(path.read_text() for path in place.rglob("logs/*.log"))
    assert run["state"] == "completed", logs
    assert (place / "roles/train/logs/rank-0.log").read_text() == "1\n1\n"
    assert (place / "work/judged").read_text() == "1\n"
