"""Several programs in one job, on a real Slurm: addresses, order, the end, the first cause, and nothing that stays behind."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from dlrun.model.cpuset import parse_list
from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, cgroups, why_not
from tests.cluster.hosts import await_true
from tests.cluster.jobs import SLURM_SITE, User
from tests.cluster.staged import names, virtual_environment
from tests.frameworks.install import InstallError, environment

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(why_not()), reason=why_not())]

EXAMPLE = Path(__file__).parents[2] / "examples" / "roles"
NODES = [f"n{number}" for number in range(1, 4)]
SERVER = """\
import os, sys, time
from http.server import BaseHTTPRequestHandler, HTTPServer

class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"scored by {os.uname().nodename}".encode())

time.sleep(2)
print("listens", flush=True)
HTTPServer(("0.0.0.0", int(sys.argv[1])), Answer).serve_forever()
"""
TRAINER = """\
import os, sys, time, urllib.request

rank = os.environ["RANK"]
for step in range(int(sys.argv[2])):
    with urllib.request.urlopen(f"http://{sys.argv[1]}/score", timeout=20) as answer:
        print("step", step, "rank", rank, "on", os.uname().nodename, answer.read().decode(), flush=True)
    time.sleep(1)
"""


@pytest.fixture(scope="module")
def cluster():
    spec = ClusterSpec(
        node_types=(NodeType(count=len(NODES), gpus=2),),
        partitions=(Partition(name="work", default=True, node_types=("n",)),),
        cgroup=not cgroups.why_not(),
        slurm_conf=("KillWait=5", "OverTimeLimit=0"),
    )
    with Cluster(spec, name=f"roles-{os.getpid()}") as running:
        yield running


def with_programs(cluster, site):
    """A user who has the server and the trainer."""
    user = User(cluster, site)
    user.write("server.py", SERVER)
    user.write("trainer.py", TRAINER)
    return user


@pytest.fixture(scope="module")
def alice(cluster):
    return with_programs(cluster, SLURM_SITE)


def submit(alice, steps, *, order=("judge", "train"), train=None, **judge):
    """Submit a training that asks a judge so often; order: of the roles and so of their nodes; others: keys of the roles."""
    roles = {
        "judge": {
            "framework": "mpi",
            "command": ["python3", "server.py", "{{ role.judge.port }}"],
            "ready": {"http": "/health", "within": "1m"},
            **judge,
        },
        "train": {
            "command": ["python3", "trainer.py", "{{ role.judge.address }}", str(steps)],
            "nodes": 2,
            "ranks_per_node": 2,
            "needs": ["judge"],
            **(train or {}),
        },
    }
    path = alice.write(
        f"roles-{steps}.yaml",
        json.dumps(
            {
                "name": "roles",
                "resources": {"walltime": "5m", "exclusive": True},
                "roles": {name: roles[name] for name in order},
            }
        ),
    )
    return alice.dlrun("submit", str(path), "--parsable").stdout.strip()


def test_a_training_asks_its_judge(alice):
    job = submit(alice, 5)
    (run,) = alice.ended(job, 120)
    assert (run["state"], run["exit_code"]) == ("completed", 0), alice.log(job)
    directory = alice.job_dir(job)
    logs = sorted((directory / "roles/train/logs").glob("rank-*.log"))
    lines = [log.read_text().splitlines() for log in logs]
    assert [len([line for line in each if line.startswith("step")]) for each in lines] == [5] * 4
    assert {line.split()[5] for each in lines for line in each if line.startswith("step")} == {"n2", "n3"}
    assert {line.split()[-1] for each in lines for line in each if line.startswith("step")} == {"n1"}
    assert alice.scontrol(job)["NumNodes"] == "3"
    shown = alice.dlrun("logs", job, "--role", "train", "--rank", "0,2").stdout
    assert "[train/rank 2] step 4 rank 2" in shown
    assert "listens" not in shown
    assert "[judge/rank 0] listens" in alice.dlrun("logs", job).stdout
    alice.left_nothing(job, NODES)
    removed = alice.dlrun("clean", str(directory), "--yes").stderr
    assert not directory.exists(), removed


DRIVER = """\
import os, time, urllib.request
import ray

@ray.remote(num_cpus=1)
def ask(number):
    time.sleep(2)
    with urllib.request.urlopen("http://{}/score".format(os.environ["DLRUN_ROLE_JUDGE_ADDRESS"]), timeout=20) as answer:
        return number, os.uname().nodename, answer.read().decode()

ray.init(address="auto")
print("ray has", len(ray.nodes()), "nodes", flush=True)
for found in ray.get([ask.options(scheduling_strategy="SPREAD").remote(number) for number in range(4)]):
    print("task", *found, flush=True)
"""


RUNTIME = """\
#!/bin/bash
# `apptainer exec`: what the command finds in the image alone is on its PATH; all else is as on the host.
while [[ $1 != *.sif ]]; do shift; done
shift
PATH={}/bin:$PATH exec "$@"
"""


def in_image(alice, venv):
    """The environment of a role whose programs are in an image."""
    alice.write("ray.sif", "")
    (alice.directory / "bin").mkdir(exist_ok=True)
    alice.write("bin/apptainer", RUNTIME.format(venv)).chmod(0o755)
    return {
        "container": {"image": "./ray.sif", "runtime": "apptainer"},
        "setup": [f"export PATH={alice.directory}/bin:$PATH"],
    }


@pytest.mark.slow
@pytest.mark.parametrize("place", ["venv", "image"])
def test_the_workers_of_a_ray_cluster_ask_its_judge(alice, place):
    """Ray's head takes a port beside that of the judge, and what Ray starts on both nodes ends with the role."""
    try:
        venv = environment("ray")
    except InstallError as fault:
        pytest.skip(str(fault))
    alice.write("driver.py", DRIVER)
    where = {"venv": str(venv)} if place == "venv" else in_image(alice, venv)
    train = {"framework": "ray", "environment": where, "command": ["python", "driver.py"]}
    job = submit(alice, 0, train=train)
    (run,) = alice.ended(job, 240)
    assert (run["state"], run["exit_code"]) == ("completed", 0), alice.log(job)
    log = (alice.job_dir(job) / "roles/train/logs/driver-0.log").read_text()
    assert "ray has 2 nodes" in log
    tasks = [line.split() for line in log.splitlines() if line.startswith("task")]
    assert [line[1] for line in tasks] == ["0", "1", "2", "3"]
    assert {line[2] for line in tasks} == {"n2", "n3"}
    assert {line[-1] for line in tasks} == {"n1"}
    alice.left_nothing(job, NODES)


def test_a_judge_that_is_killed_is_the_cause(alice):
    job = submit(alice, 200)
    log = alice.job_dir(job) / "roles/train/logs/rank-0.log"
    await_true(lambda: log.exists() and "step 1 " in log.read_text(), 90, "the training to begin")
    alice.cluster.on("n1", ["pkill", "-KILL", "-f", "server.py"])
    (run,) = alice.ended(job, 60)
    assert run["state"] == "failed", alice.log(job)
    assert "dlrun: role judge" in alice.log(job)
    record = json.loads((alice.job_dir(job) / "state.json").read_text())
    assert (record["role"], record["exit_code"]) == ("judge", 137), alice.log(job)
    why = alice.why(job)
    assert (why["role"], why["exit_code"], why["first"]["host"]) == ("judge", 137, "n1"), why
    assert why["next"].count("--role judge") == why["next"].count("dlrun logs")
    assert "why:   role judge: " in alice.dlrun("why", job).stdout
    assert "listens" in alice.dlrun("logs", job, "--first-failure").stdout
    alice.left_nothing(job, NODES)


def test_a_judge_starts_again_as_often_as_is_allowed(alice):
    job = submit(alice, 1000, restarts=1)
    log = alice.job_dir(job) / "roles/judge/logs/rank-0.log"
    await_true(lambda: log.exists() and "listens" in log.read_text(), 90, "the judge to listen")
    alice.cluster.on("n1", ["pkill", "-KILL", "-f", "server.py"])
    await_true(lambda: "(1 of 1)" in alice.log(job), 60, "the judge to start again")
    alice.dlrun("cancel", job)
    (run,) = alice.ended(job, 60)
    assert run["state"] in ("cancelled", "failed"), alice.log(job)
    alice.left_nothing(job, NODES)


def test_a_judge_that_never_listens_is_the_cause(alice):
    hangs = ["python3", "-c", "import time; time.sleep(600)"]
    job = submit(alice, 3, command=hangs, ready={"http": "/health", "within": "5s"})
    (run,) = alice.ended(job, 90)
    assert (run["state"], run["exit_code"]) == ("failed", 1), alice.log(job)
    record = json.loads((alice.job_dir(job) / "state.json").read_text())
    assert record["cause"] == "role judge was not ready within 5 s: last answer: connection refused"
    assert not (alice.job_dir(job) / "roles/train/logs/rank-0.log").exists(), "what needs it has not begun"
    alice.left_nothing(job, NODES)


def test_a_training_that_fails_ends_its_judge(alice):
    job = submit(alice, "no number")
    (run,) = alice.ended(job, 120)
    assert (run["state"], run["exit_code"]) == ("failed", 1), alice.log(job)
    why = alice.why(job)
    assert (why["role"], why["cause"]) == ("train", "exception"), why
    assert "ValueError" in why["line"]
    assert "role judge was ended" in alice.log(job)
    (job_as_data,) = json.loads(alice.dlrun("status", job, "--json").stdout)["jobs"]
    assert [(role["role"], role["state"]) for role in job_as_data["roles"]] == [
        ("judge", "ended"),
        ("train", "ended"),
    ]
    assert "after" in alice.dlrun("status", job).stdout
    alice.left_nothing(job, NODES)


def test_roles_beside_one_another_have_cores_and_gpus_of_their_own(alice):
    types = {"n": {"topology": {"packages": 2, "cores": 4, "gpus": {"count": 2, "numa": [0, 1]}}}}
    alice.write("gpus.yaml", {**SLURM_SITE, "node_types": types})
    show = "echo part $(uname -n) $(taskset -c -p $BASHPID | sed 's/.*: //') gpu $CUDA_VISIBLE_DEVICES"
    roles = {
        "train": {
            "run": f"{show}\npython3 trainer.py {{{{ role.judge.address }}}} 2",
            "nodes": 2,
            "gpus_per_node": 1,
            "needs": ["judge"],
        },
        "judge": {
            "run": f"{show}\nexec python3 server.py {{{{ role.judge.port }}}}",
            "beside": "train",
            "gpus_per_node": 1,
        },
    }
    path = alice.write(
        "beside.yaml",
        {
            "name": "beside",
            "site": "./gpus.yaml",
            "resources": {"walltime": "5m", "exclusive": True},
            "roles": roles,
        },
    )
    job = alice.dlrun("submit", str(path), "--parsable").stdout.strip()
    (run,) = alice.ended(job, 120)
    assert (run["state"], run["exit_code"]) == ("completed", 0), alice.log(job)
    assert alice.scontrol(job)["NumNodes"] == "2"
    found = {}
    for name in ("train", "judge"):
        for log in (alice.job_dir(job) / f"roles/{name}/logs").glob("rank-*.log"):
            (line,) = [line.split() for line in log.read_text().splitlines() if line.startswith("part")]
            found[name, line[1]] = (parse_list(line[2]), line[4])
    assert sorted(found) == [("judge", "n1"), ("train", "n1"), ("train", "n2")]
    for cpus, _ in found.values():
        assert len(cpus) == 4
    assert not set(found["judge", "n1"][0]) & set(found["train", "n1"][0])
    assert found["train", "n1"] == found["train", "n2"]
    assert [gpu for _, gpu in (found["train", "n1"], found["judge", "n1"])] == ["0", "1"]
    alice.left_nothing(job, NODES)


@pytest.mark.skipif(bool(cgroups.why_not()), reason=cgroups.why_not() or "")
def test_a_role_that_uses_more_than_its_memory_ends_alone(alice):
    """On one node: the training uses as much as ends the judge, which starts once more and answers."""
    eat = "python3 -c 'x = bytearray(300 << 20); print(\"eaten\")'"
    serve = (
        f"[[ $DLRUN_RESTART != 0 ]] || {{ {eat}; exit 1; }}\nexec python3 server.py {{{{ role.judge.port }}}}"
    )
    training = f"{eat} && exec python3 trainer.py {{{{ role.judge.address }}}} 2"
    alice.write("known.yaml", {**SLURM_SITE, "node_types": {"n": {"topology": {"packages": 1, "cores": 4}}}})
    roles = {
        "train": {"run": training, "needs": ["judge"], "memory_per_node": "700MiB"},
        "judge": {"run": serve, "beside": "train", "restarts": 1, "memory_per_node": "100MiB"},
    }
    resources = {"walltime": "5m", "exclusive": True}
    path = alice.write(
        "memory.yaml", {"name": "memory", "site": "./known.yaml", "resources": resources, "roles": roles}
    )
    job = alice.dlrun("submit", str(path), "--parsable").stdout.strip()
    assert "mem=800M" in alice.scontrol(job)["TRES"]
    (run,) = alice.ended(job, 120)
    assert (run["state"], run["exit_code"]) == ("completed", 0), alice.log(job)
    assert "role judge ended with exit code 137 before it was ready: out of memory" in alice.log(job)
    logs = alice.dlrun("logs", job).stdout.splitlines()
    assert {line.partition("/")[0] for line in logs if line.endswith("eaten")} == {"[train"}
    alice.left_nothing(job, NODES)


LEARNER = """\
import os, signal, sys, time, urllib.request

saved = os.environ["DLRUN_JOB_DIR"] + "/saved"  # of this job: others learn in the same directory
step = int(open(saved).read()) if os.path.exists(saved) else 0

def save(number, frame):
    print("saves", step, flush=True)
    if os.environ["RANK"] == "0":
        with open(saved, "w") as file:
            file.write(str(step))
    sys.exit(0)

signal.signal(signal.SIGUSR1, save)
print("begins at", step, "restart", os.environ["DLRUN_RESTART"], flush=True)
while step < 1000 and (step == 0 or os.environ["DLRUN_RESTART"] == "0"):
    urllib.request.urlopen(f"http://{sys.argv[1]}/score", timeout=20).read()
    step += 1
    time.sleep(0.5)
print("learned", flush=True)
"""


def test_before_the_walltime_the_training_saves_and_the_job_goes_on(alice):
    alice.write("learner.py", LEARNER)
    spec = {
        "name": "saves",
        "resources": {"walltime": "1m", "exclusive": True},
        "checkpoint": {"signal": "USR1", "before_end": "30s"},
        "on_failure": {"requeue": 2},
        "roles": {
            "judge": {"run": "exec python3 server.py {{ role.judge.port }}"},
            "train": {
                "command": ["python3", "learner.py", "{{ role.judge.address }}"],
                "nodes": 2,
                "ranks_per_node": 1,
                "needs": ["judge"],
            },
        },
    }
    job = alice.dlrun("submit", str(alice.write("saves.yaml", spec)), "--parsable").stdout.strip()
    await_true(lambda: "another start of the job follows" in alice.log(job), 120, "the next start")
    (run,) = alice.ended(job, 240)
    assert (run["state"], run["exit_code"]) == ("completed", 0), alice.log(job)
    for rank in ("0", "1"):
        log = alice.dlrun("logs", job, "--role", "train", "--rank", rank).stdout
        saved = [
            line.split()[-1] for line in log.splitlines() if " saves " in line or line.startswith("saves")
        ]
        begun = [line.split("begins at ")[1] for line in log.splitlines() if "begins at" in line]
        assert begun[0] == "0 restart 0"
        assert begun[1].endswith(" restart 1")
        assert int(saved[0]) > 0
        assert len(begun) == 2, log
        assert log.count("learned") == 1
    assert "SIGUSR2 to role train" in alice.log(job)
    assert "SIG" not in (alice.job_dir(job) / "roles/judge/logs/job.log").read_text(), (
        "a server has nothing to save"
    )
    alice.left_nothing(job, NODES)


def test_a_failure_of_the_program_starts_the_job_again_if_that_is_allowed(alice):
    fails = "echo start $DLRUN_RESTART; sleep 2; exit $((DLRUN_RESTART ? 0 : 3))"
    spec = {
        "name": "again",
        "resources": {"walltime": "5m", "exclusive": True},
        "on_failure": {"requeue": 1, "user_error": "requeue"},
        "roles": {
            "judge": {"run": "exec python3 server.py {{ role.judge.port }}"},
            "train": {"run": f"{fails} # {{{{ role.judge.address }}}}", "needs": ["judge"]},
        },
    }
    job = alice.dlrun("submit", str(alice.write("again.yaml", spec)), "--parsable").stdout.strip()
    await_true(lambda: "another start of the job follows" in alice.log(job), 120, "the next start")
    (run,) = alice.ended(job, 240)
    assert (run["state"], run["exit_code"]) == ("completed", 0), alice.log(job)
    log = alice.dlrun("logs", job, "--role", "train").stdout
    assert "start 0" in log, log
    assert "start 1" in log, log
    alice.left_nothing(job, NODES)


WRITER = """\
import os, sys, time, urllib.request

urllib.request.urlopen(f"http://{sys.argv[1]}/score", timeout=20).read()
with open(f"{sys.argv[2]}/{os.environ['RANK']}", "w") as file:
    file.write(os.uname().nodename)
print("has written", flush=True)
time.sleep(float(sys.argv[3]))
"""


def with_storage(alice):
    """A profile as the user's own, of a site that has node-local storage."""
    alice.write("local.yaml", {**alice.site, "storage": {"node_local": {"path": "/tmp", "size": "10GB"}}})


def writing(alice, name, seconds, walltime="5m"):
    """Submit a training of two nodes that writes results there and runs on; its id and their destination."""
    with_storage(alice)
    alice.write("writer.py", WRITER)
    command = ["python3", "writer.py", "{{ role.judge.address }}", "{{ results }}", str(seconds)]
    spec = {
        "name": name,
        "site": "./local.yaml",
        "resources": {"walltime": walltime, "exclusive": True},
        "results": {"to": f"results-{name}", "before_end": "20s"},
        "roles": {
            "judge": {"run": "exec python3 server.py {{ role.judge.port }}"},
            "train": {"command": command, "nodes": 2, "ranks_per_node": 1, "needs": ["judge"]},
        },
    }
    job = alice.dlrun("submit", str(alice.write(f"{name}.yaml", spec)), "--parsable").stdout.strip()
    return job, alice.directory / f"results-{name}"


def await_written(alice, job):
    logs = [alice.job_dir(job) / f"roles/train/logs/rank-{rank}.log" for rank in (0, 1)]
    await_true(lambda: all(log.exists() and "has written" in log.read_text() for log in logs), 90, "results")


def arrived(alice, job, to):
    """The results of both ranks are there, and nothing of them on the nodes."""
    log = (alice.job_dir(job) / "roles/train/logs/job.log").read_text()
    assert {path.name: path.read_text() for path in to.iterdir()} == {"0": "n2", "1": "n3"}, log
    assert "not all results" not in log
    for node in NODES:
        assert not [name for name in names(alice, node) if name.startswith(".results")]
    alice.left_nothing(job, NODES)


def test_results_are_copied_before_the_services_end(alice):
    job, to = writing(alice, "done", 0)
    (run,) = alice.ended(job, 120)
    assert (run["state"], run["exit_code"]) == ("completed", 0), alice.log(job)
    log = alice.log(job)
    assert log.index("role train ended with exit code 0") < log.index("role judge was ended")
    arrived(alice, job, to)


def test_results_are_copied_before_the_walltime_ends(alice):
    job, to = writing(alice, "late", 1000, walltime="1m")
    (run,) = alice.ended(job, 180)
    assert run["state"] == "timed out", alice.log(job)
    assert "SIGUSR2 to role train" in alice.log(job)
    arrived(alice, job, to)


def test_results_are_copied_where_a_service_has_failed(alice):
    job, to = writing(alice, "lost", 1000)
    await_written(alice, job)
    alice.cluster.on("n1", ["pkill", "-KILL", "-f", "server.py"])
    (run,) = alice.ended(job, 120)
    assert run["state"] == "failed", alice.log(job)
    assert alice.why(job)["role"] == "judge"
    arrived(alice, job, to)


def test_results_are_copied_where_the_job_is_cancelled(alice):
    job, to = writing(alice, "cancelled", 1000)
    await_written(alice, job)
    alice.dlrun("cancel", job)
    alice.ended(job, 120)
    await_true(lambda: len(list(to.iterdir())) == 2, 60, "the results of both nodes")
    arrived(alice, job, to)


CODED = """\
import os, sys, time, urllib.request
import lib

with urllib.request.urlopen(f"http://{sys.argv[1]}/score", timeout=20) as answer:
    answer.read()
with open(f"out-{os.environ['RANK']}", "w") as file:
    file.write(os.uname().nodename)
if os.environ["RANK"] == "0":
    with open("out", "w") as file:
        file.write("train")
print(lib.VERSION, lib.__file__, flush=True)
print("has written", flush=True)
time.sleep(float(sys.argv[2]))
"""


def with_code_on_nodes(alice, name, seconds, walltime="5m"):
    """Submit a training of two nodes that writes beside its code, as its judge does, to a file of the same name; its id."""
    with_storage(alice)
    alice.write("coded.py", CODED)
    alice.write("lib.py", "VERSION = 1\n")
    spec = {
        "name": name,
        "site": "./local.yaml",
        "code": {"stage": True},
        "environment": {"variables": {"PYTHONDONTWRITEBYTECODE": "1"}},
        "resources": {"walltime": walltime, "exclusive": True},
        "hold": True,
        "roles": {
            "judge": {"run": "echo judge >out; exec python3 server.py {{ role.judge.port }}"},
            "train": {
                "command": ["python3", "coded.py", "{{ role.judge.address }}", str(seconds)],
                "nodes": 2,
                "ranks_per_node": 1,
                "needs": ["judge"],
            },
        },
    }
    job = alice.dlrun("submit", str(alice.write(f"{name}.yaml", spec)), "--parsable").stdout.strip()
    alice.write("lib.py", "VERSION = 2\n")
    alice.dlrun("release", job)
    return job


def came_back(alice, job):
    """What each role wrote is in its own directory, and the nodes have nothing any more."""
    place, log = alice.job_dir(job) / "roles", alice.log(job)
    printed = [(place / f"train/logs/rank-{rank}.log").read_text() for rank in (0, 1)]
    assert all("1 /tmp/dlrun-alice/.results-code-" in text for text in printed), printed
    found = {
        name: {path.name: path.read_text().strip() for path in (place / name / "work").glob("out*")}
        for name in ("judge", "train")
    }
    assert found["judge"] == {"out": "judge"}, log
    assert found["train"] == {"out": "train", "out-0": "n2", "out-1": "n3"}, log
    for node in NODES:
        assert not [one for one in names(alice, node) if one.startswith((".results", "code"))]
    alice.left_nothing(job, NODES)


def test_what_roles_write_beside_code_on_their_nodes_comes_back(alice):
    job = with_code_on_nodes(alice, "coded", 0)
    (run,) = alice.ended(job, 120)
    assert (run["state"], run["exit_code"]) == ("completed", 0), alice.log(job)
    came_back(alice, job)


def test_what_roles_write_beside_their_code_comes_back_where_the_job_is_cancelled(alice):
    job = with_code_on_nodes(alice, "coded-cancelled", 1000)
    await_written(alice, job)
    alice.dlrun("cancel", job)
    alice.ended(job, 120)
    works = [alice.job_dir(job) / "roles" / name / "work" for name in ("judge", "train")]
    await_true(lambda: all((work / "out").exists() for work in works), 60, "what both roles wrote")
    came_back(alice, job)


def test_what_roles_write_beside_their_code_comes_back_before_the_walltime_ends(alice):
    job = with_code_on_nodes(alice, "coded-late", 1000, walltime="1m")
    (run,) = alice.ended(job, 180)
    assert run["state"] == "timed out", alice.log(job)
    assert "SIGUSR2 to role train" in alice.log(job)
    assert "SIGUSR2 to role judge" not in alice.log(job)
    came_back(alice, job)


def test_the_example(alice):
    for name in ("spec.yaml", "judge.py", "train.py"):
        alice.write(name, (EXAMPLE / name).read_text())
    job = alice.dlrun("submit", "spec.yaml", "--parsable").stdout.strip()
    (run,) = alice.ended(job, 120)
    assert (run["state"], run["exit_code"]) == ("completed", 0), alice.log(job)
    for rank in ("0", "1"):
        assert "step 400 mean reward" in alice.dlrun("logs", job, "--role", "train", "--rank", rank).stdout
    alice.left_nothing(job, NODES)


READER = """\
import os, sys, time
from pathlib import Path

place = Path(os.environ["DLRUN_DATA_SMALL"])
print("read", (place / "b.txt").read_text(), "in", place, "with", sorted(set(os.environ) & {"DLRUN_DATA_OWN"}), flush=True)
time.sleep(float(sys.argv[1]))
"""


def reading(alice, name, seconds, *, hold=False, **roles):
    """Submit a training of two nodes whose data, and that of its judge, lie on the nodes; its id."""
    with_storage(alice)
    alice.write("reader.py", READER)
    for file in ("set/a.txt", "set/b.txt", "own/c.txt"):
        (alice.directory / file).parent.mkdir(exist_ok=True)
        (alice.directory / file).parent.chmod(0o755)
        alice.write(file, file)
    spec = {
        "name": name,
        "site": "./local.yaml",
        "hold": hold,
        "resources": {"walltime": "5m", "exclusive": True},
        "data": {"small": {"source": "set", "keep": "job"}},
        "roles": {
            "judge": {
                "run": "cat {{ data.own }}/c.txt; exec python3 server.py {{ role.judge.port }}",
                "data": {"own": {"source": "own", "keep": "job"}},
            },
            "train": {"command": ["python3", "reader.py", str(seconds)], "nodes": 2, "ranks_per_node": 2, "needs": ["judge"]},
            **roles,
        },
    }  # fmt: skip
    return alice.dlrun("submit", str(alice.write(f"{name}.yaml", spec)), "--parsable").stdout.strip()


def test_the_data_of_each_role_are_copied_to_its_nodes(alice):
    job = reading(alice, "reads", 0)
    (run,) = alice.ended(job, 120)
    assert (run["state"], run["exit_code"]) == ("completed", 0), alice.log(job)
    shown = alice.dlrun("logs", job, "--role", "train", "--rank", "all").stdout
    assert shown.count("read set/b.txt in /tmp/") == 4, shown
    assert shown.count("with []") == 4, shown
    assert "own/c.txt" in alice.dlrun("logs", job, "--role", "judge").stdout
    no_data_left(alice, job)


def no_data_left(alice, job):
    for node in NODES:
        assert not {"small", "own", "gone"} & {*names(alice, node)}, names(alice, node)
    alice.left_nothing(job, NODES)


def test_data_that_two_roles_of_a_node_read_stay_until_both_have_ended(alice):
    late = "sleep 8; python3 reader.py 0"
    job = reading(alice, "beside", 0, early={"command": ["python3", "reader.py", "2"], "ends": True},
                  late={"run": late, "beside": "early", "ends": True},
                  train={"command": ["true"]})  # fmt: skip
    (run,) = alice.ended(job, 120)
    assert (run["state"], run["exit_code"]) == ("completed", 0), alice.log(job)
    for role in ("early", "late"):
        shown = alice.dlrun("logs", job, "--role", role, "--rank", "all").stdout
        assert shown.count("read set/b.txt in /tmp/") == 1, shown
    no_data_left(alice, job)


def test_a_job_that_is_cancelled_takes_the_data_of_its_roles_away(alice):
    job = reading(alice, "cancelled", 300)
    log = alice.job_dir(job) / "roles/train/logs/rank-0.log"
    await_true(lambda: log.exists() and "read" in log.read_text(), 90, "the training to read")
    assert [any("small" in name for name in names(alice, node)) for node in NODES] == [True] * 3
    alice.dlrun("cancel", job)
    alice.ended(job, 60)
    no_data_left(alice, job)


def test_the_venv_of_a_role_comes_to_its_nodes(alice):
    venv = virtual_environment(alice)
    shows = {"command": ["python", "-c", "import sys; print(sys.prefix)"], "nodes": 2, "ranks_per_node": 1}
    job = reading(
        alice,
        "venv",
        0,
        train={**shows, "environment": {"venv": str(venv), "stage": True}, "needs": ["judge"]},
    )
    (run,) = alice.ended(job, 120)
    assert run["state"] == "completed", (alice.job_dir(job) / "roles/train/logs/job.log").read_text()
    logs = [alice.job_dir(job) / f"roles/train/logs/rank-{rank}.log" for rank in (0, 1)]
    assert [log.read_text().split() for log in logs] == [["/tmp/dlrun-alice/environment/data"]] * 2


def test_data_that_have_gone_end_the_job_and_are_the_cause(alice):
    gone = alice.directory / "gone"
    gone.mkdir()
    (gone / "file").write_text("x")
    train = {"command": ["python3", "reader.py", "0"], "nodes": 2, "needs": ["judge"],
             "data": {"gone": {"source": str(gone), "strategy": "copy"}}}  # fmt: skip
    job = reading(alice, "gone", 0, hold=True, train=train)
    shutil.rmtree(gone)
    alice.dlrun("release", job)
    (run,) = alice.ended(job, 120)
    assert run["state"] == "failed", alice.log(job)
    why = alice.why(job)
    assert why["role"] == "train", why
    assert f"the source `{gone}` does not exist" in json.dumps(why)
    no_data_left(alice, job)


def lose_the_first_node(alice, **keys):
    """Kill the node of the job's script, with its judge: the job ends with the cause and its way out, and so do the roles."""
    job = submit(alice, 300, **keys)
    place = alice.job_dir(job)
    log = place / "roles/train/logs/rank-0.log"
    await_true(lambda: log.exists() and "step 1 " in log.read_text(), 90, "the training to begin")
    first = json.loads((place / "state.json").read_text())["host"]
    alice.cluster.kill_node(first)
    try:
        (run,) = alice.ended(job, 120)
        assert run["state"] == "node failed", alice.log(job)
        (known,) = json.loads(alice.dlrun("status", job, "--json").stdout)["jobs"]
        assert {role["state"] for role in known["roles"]} == {"node failed"}
        answer = alice.why(job)
        assert answer["cause"] == "node"
        assert f"{first}, on which job.sh ran" in answer["means"]
        alice.left_nothing(job, [node for node in NODES if node != first])
    finally:
        alice.cluster.start_node(first)
    return answer
