"""Submission to a login host over real sshds: both transports, a jump host, a second factor, and every way to break."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest
import yaml

from tests import apptainer
from tests.cluster import Cluster, ClusterSpec, NodeType, why_no_pbs, why_not
from tests.cluster.hosts import await_true
from tests.cluster.laptop import PROGRAMS, Laptop, kill
from tests.cluster.sshd import SECOND_FACTOR

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(why_not()), reason=why_not())]

TRANSPORTS = pytest.mark.parametrize("transport", ["openssh", "paramiko"])
MARK = re.compile(r"dlrun-[0-9a-f]{16}")
"""What dlrun itself writes into a connection, which is no reason why it was lost."""
ASKPASS = {"SSH_ASKPASS_REQUIRE": "force"}
SITE = {
    "name": "far",
    "recognise": {"cluster_name": "testcluster"},
    "scheduler": {"type": "slurm"},
    "launcher": {"name": "srun"},
}


@pytest.fixture(scope="module")
def cluster():
    spec = ClusterSpec(
        node_types=(NodeType(count=2),), outside=("laptop", "gate"), sshd=True, second_factor=("gate",)
    )
    with Cluster(spec, name=f"remote-{os.getpid()}") as running:
        # A second server on the login host, which wants the second factor too.
        strict = "sed s/host_gate/host_login/ /etc/ssh/sshd_gate; echo Port 2222; echo PidFile /run/sshd2.pid"
        running.on(
            "login", f"({strict}) > /tmp/strict && /usr/sbin/sshd -f /tmp/strict", user="root", check=True
        )
        # A third one, which wants a password and then a code in one login.
        wants = "-p 2223 -o PidFile=/run/sshd3.pid -o PasswordAuthentication=yes"
        wants += " -o AuthenticationMethods=password,keyboard-interactive"
        running.on("login", f"/usr/sbin/sshd {wants} -f /tmp/strict", user="root", check=True)
        yield running


@pytest.fixture(scope="module")
def laptop(cluster):
    return Laptop(cluster, SITE)


def asking(laptop):
    """The environment in which ssh asks a program for the second factor."""
    laptop.run("rm -f asked")
    return {"SSH_ASKPASS": str(laptop.home / "ask"), **ASKPASS}


def fail_last(code):
    """Shell code of two ranks of which the second one fails, when the first one has written its file `out/0`."""
    return f"((DLRUN_RANK == 0)) || {{ until [[ -s out/0 ]]; do sleep 0.1; done; exit {code}; }}"


def questions(laptop):
    return laptop.run("cat asked 2>/dev/null || true").splitlines()


def end_connections(laptop):
    laptop.run(
        "for s in /run/user/$UID/dlrun/* /tmp/dlrun-$UID/*; do [ ! -S $s ] || ssh -S $s -O exit x; done 2>&1"
    )


@TRANSPORTS
def test_from_submit_to_the_last_result(laptop, transport):
    """Files go over, the job runs on two hosts, its log and exit code come here, and so do its results."""
    laptop.run(
        "cd work && mkdir -p tree/sub && echo 'echo from $(cat tree/sub/data)' > train.sh && echo here > tree/sub/data"
    )
    spec = laptop.spec(
        "unused",
        command=["bash", "train.sh"],
        files=["train.sh", "tree"],
        resources={"nodes": 2, "walltime": "5m"},
    )
    laptop.run(f"cd work && echo 'mkdir -p out && hostname > out/$DLRUN_RANK; {fail_last(7)}' >> train.sh")
    name = f"far{laptop.serial}"
    done = laptop.dlrun("submit", spec, "--host", "login", "--transport", transport, "--wait", code=7)
    assert "from here\n" in done.stdout
    assert "Welcome" not in done.stdout
    (directory,) = laptop.directories_of(name)
    assert f"job directory: login:{laptop.home}/.local/state/dlrun/jobs/{directory}\n" in done.stdout
    (listed,) = [line for line in laptop.dlrun("list").stdout.splitlines() if line.startswith(name)]
    assert listed.split()[2:5] == ["far", "failed", "7"]
    assert laptop.dlrun("logs", name, "--rank", "1").stdout == "[rank 1] from here\n"
    record = laptop.dlrun("fetch", name).stdout.strip()
    assert laptop.run(f"cd {record}/files && cat out/0 out/1; ls").split() == ["n1", "n2", "out"]
    again = laptop.dlrun("fetch", name)
    assert "0 files copied" in again.stderr
    laptop.dlrun("fetch", name, "out/*", "--to", "results")
    assert laptop.run("cat work/results/out/1") == "n2\n"


def test_a_job_begins_with_what_an_earlier_one_has_compiled(laptop, cluster):
    """From the store beside the job directories of the login host, also where nodes keep nothing."""
    script = 'e=$TRITON_CACHE_DIR/entry; [[ -s $e ]] && echo found || { echo compiled | tee "$e.$RANK"; mv "$e.$RANK" "$e"; }'
    said = []
    for _ in range(2):
        for node in ("n1", "n2"):
            cluster.on(node, "rm -rf /tmp/dlrun-*", user="root", check=True)
        job = laptop.submit(laptop.spec(script, resources={"nodes": 2, "walltime": "5m"}))
        assert laptop.ended(job)["state"] == "completed"
        said.append([laptop.dlrun("logs", job, "--rank", rank).stdout.split()[2] for rank in "01"])
    assert said == [["compiled"] * 2, ["found"] * 2]
    (store,) = laptop.there("ls -d .local/state/dlrun/jobs/.dlrun-hub-*/caches--*").split()
    for node in ("n1", "n2"):  # else the next job saves it again
        cluster.on(node, "rm -rf /tmp/dlrun-*", user="root", check=True)
    laptop.there(f"rm -r {store}")


def test_login_host_needs_nothing_but_bash_and_clients(laptop, cluster):
    """The scripts that dlrun sends start no Python there."""
    cluster.on(
        "login",
        "cat > break/python3 && chmod +x break/python3",
        input='#!/bin/sh\n[ "$(hostname)" != login ] || touch ~/python-ran\n',
        check=True,
    )
    job = laptop.submit(laptop.spec("true"))
    laptop.ended(job)
    laptop.dlrun("fetch", job)
    laptop.there("rm break/python3")
    assert laptop.there("ls python-ran 2>/dev/null || echo none") == "none\n"


def test_a_job_is_watched_from_here_and_tuned_only_there(laptop):
    """`dlrun usage --live` and `dlrun usage` read copies of the sampler's files; trials need dlrun on the cluster."""
    job = laptop.submit(
        laptop.spec("echo working; sleep 60", resources={"nodes": 2, "ranks_per_node": 1, "walltime": "5m"})
    )

    def seen():
        return laptop.dlrun("top", job, "--once").stdout

    await_true(lambda: "rank-1" in seen(), 60, "both ranks to be shown")
    await_true(lambda: "working" in seen(), 60, "the last line of a log")
    laptop.dlrun("cancel", job)
    laptop.ended(job)
    (use,) = json.loads(laptop.dlrun("usage", job, "--json").stdout)["usage"]
    assert [rank["node"] for rank in use["use"]["ranks"]] == ["n1", "n2"]
    site = laptop.run(f"cat .config/dlrun/sites/{laptop.site}.yaml") + "login: {host: login}\n"
    laptop.write("work/reached.yaml", site)
    spec = laptop.spec("true", site="./reached.yaml")
    refused = laptop.dlrun("tune", spec, "--try", "placement.threads=1", "--budget", "1", code=2).stderr
    assert "whose login node is `login`" in refused
    assert "`ssh login`" in refused


@TRANSPORTS
def test_into_a_job_from_here(laptop, cluster, transport):
    """A command beside a rank and a port of its node, through the login host."""
    serve = "echo on $(hostname) > index.html; exec python3 -m http.server --bind 127.0.0.1 18700"
    two = {"nodes": 2, "ranks_per_node": 1, "walltime": "5m"}
    job = laptop.submit(
        laptop.spec(f"mkdir -p $RANK; cd $RANK; {serve}", resources=two), "--transport", transport
    )
    await_true(lambda: "rank-1" in laptop.dlrun("top", job, "--once").stdout, 120, "both ranks to be shown")
    words = ["sh", "-c", "echo $RANK on $(hostname); echo said >&2; exit 5"]
    entered = laptop.dlrun("shell", "--rank", "1", job, "--", *words, code=5)
    assert (entered.stdout, "said\n" in entered.stderr) == ("1 on n2\n", True)
    tunnel = laptop.start("dlrun", "tunnel", "--json", "--rank", "1", job, "18700")
    line = tunnel.stdout.readline()
    assert line, tunnel.communicate(timeout=60)[1]
    address = json.loads(line)["tunnel"]["address"]
    got = cluster.on(
        "laptop", ["curl", "-s", "--max-time", "20", f"http://{address}/index.html"], check=True
    ).stdout
    assert got == "on n2\n"
    laptop.dlrun("cancel", job)
    _, notices = tunnel.communicate(timeout=120)
    assert (tunnel.returncode, "has ended: cancelled" in notices) == (0, True)


@TRANSPORTS
def test_why_fetches_what_tells_the_cause(laptop, transport):
    """Rank 0 only loses rank 1; nothing of its log was here before, and little of it is fetched."""
    loses = "until [[ -e failed ]]; do sleep 0.1; done; sleep 1; echo RuntimeError: Connection closed by peer; exit 1"
    fails = "head -c 3000000 /dev/zero | tr '\\0' '\\n'; echo ModuleNotFoundError: No module named nowhere; touch failed; exit 1"
    two = {"nodes": 2, "ranks_per_node": 1, "walltime": "5m"}
    spec = laptop.spec(f"if ((RANK)); then {fails}; fi; {loses}", resources=two)
    job = laptop.submit(spec, "--transport", transport)
    assert laptop.ended(job)["state"] == "failed"
    (why,) = json.loads(laptop.dlrun("why", job, "--json").stdout)["why"]
    assert (why["cause"], why["first"]["rank"]) == ("missing-module", 1)
    place = laptop.job(job)["directory"]
    assert not laptop.run(f"find {place} -name .why")  # what was copied goes with the process
    assert laptop.run(f"ls {place}/logs") == ""
    done = laptop.dlrun("logs", job, "--first-failure")
    assert "rank 1 on n2 failed first" in done.stderr
    assert "No module named nowhere" in done.stdout
    assert laptop.run(f"ls {place}/logs") == "rank-1.log\n"


def test_dlrun_there_knows_the_job_too(laptop, cluster):
    job = laptop.submit(laptop.spec("true"))
    line = cluster.on("login", [f"{PROGRAMS}/dlrun", "list"], check=True).stdout
    assert any(row.split()[1] == job for row in line.splitlines())


def test_inherited_variables_of_login_shells_do_not_reach_the_job(laptop):
    """Nor does the job believe that it is an ssh session, in which bash reads start-up files."""
    before = laptop.there("cat .bash_profile")
    hostile = "SBATCH_PARTITION=nonsense SLURM_JOB_ID=77 SQUEUE_FORMAT=%x OMPI_COMM_WORLD_RANK=5"
    laptop.there(f"echo 'export {hostile}' >> .bash_profile")
    try:
        spec = laptop.spec("echo rank=${OMPI_COMM_WORLD_RANK-unset} ssh=${SSH_CLIENT-unset}")
        done = laptop.dlrun("submit", spec, "--host", "login", "--wait")
    finally:
        laptop.cluster.on("login", "cat > .bash_profile", input=before, check=True)
    assert "OMPI_COMM_WORLD_RANK, SBATCH_PARTITION, SLURM_JOB_ID, SQUEUE_FORMAT" in done.stderr
    assert "rank=unset ssh=unset" in done.stdout
    assert "Welcome" not in done.stdout


REGISTRY = """
import json, threading
from pathlib import Path
from tests.registry import Registry, serve
registry = Registry()
server = serve(registry)
registry.push("org/tool", {"a": bytes(3000000)}, "1.0")
Path("image").write_text(f"docker://{registry.host}/org/tool@{registry.tags['org/tool:1.0']}")
while True:
    threading.Event().wait(0.2)
    Path("asked.new").write_text(json.dumps(registry.asked))
    Path("asked.new").rename("asked")
"""


@pytest.mark.slow
def test_the_login_node_pulls_an_image_once_also_after_a_lost_connection(laptop, cluster):
    """The stand-in for Apptainer pulls on the login host, and runs the ranks of two nodes."""
    top = str(Path(__file__).parents[2])
    laptop.there("mkdir registry; echo 'export FAKE_HOLD=$HOME/hold' >> .bash_profile; touch hold")
    program = apptainer.PROGRAM.replace("PYTHON", sys.executable)
    cluster.on("login", "cat > break/apptainer; chmod +x break/apptainer", input=program, check=True)
    serve = [sys.executable, "-c", REGISTRY]
    server = cluster.popen("login", serve, env={"PYTHONPATH": top}, cwd=str(laptop.home / "registry"))
    running = "pgrep -u $UID -f 'apptainer [p]ull' || true"
    try:
        await_true(lambda: "asked" in laptop.there("ls registry").split(), 60, "the registry")
        spec = laptop.spec(
            "head -c 3 $IMAGE; echo at $IMAGE",
            resources={"nodes": 2, "ranks_per_node": 2, "cpus_per_rank": 1, "walltime": "5m"},
            environment={
                "container": {"image": laptop.there("cat registry/image")},
                "setup": ['PATH="$HOME/break:$PATH"'],
            },
        )
        first = laptop.start("dlrun", "submit", spec, "--host", "login")
        store = f".local/state/dlrun/jobs/.dlrun-hub-{laptop.there('id -u').strip()}"
        begun = f"ls {store}/*/.*.parts/new-*/image.sif 2>/dev/null || true"
        await_true(lambda: laptop.there(begun), 60, "the pull to begin")
        kill(first)
        first.communicate()
        await_true(lambda: not laptop.there(running), 60, "the pull to end with its connection")
        laptop.there("rm hold")
        done = laptop.dlrun("submit", spec, "--host", "login", "--wait")
        assert "pulled and converted once for all jobs" in done.stderr
        path = laptop.there(f"ls {store}/*/*/image.sif").strip()
        name = f"far{laptop.serial}"
        assert f"SIFat {laptop.home}/{path}" in done.stdout
        logs = laptop.dlrun("logs", name, "--rank", "all").stdout
        assert logs.count(f"SIFat {laptop.home}/{path}") == 4
        await_true(lambda: "/blobs/" in laptop.there("cat registry/asked"), 60, "the registry to write")
        asked = json.loads(laptop.there("cat registry/asked"))
        assert len([line for line in asked if "/blobs/" in line]) == 1, "the layers that had come are used"
        assert not laptop.there(f"ls -d {store}/*/.*.parts 2>/dev/null || true")
        assert f"SIFat {laptop.home}/{path}" in laptop.dlrun("resubmit", name, "--wait").stdout
        assert laptop.there(f"stat -c %h {store}/*/*.json").strip() == "3", "the store's, and one of each job"
    finally:
        kill(server)
        laptop.there("rm -f hold break/apptainer; sed -i /FAKE_HOLD/d .bash_profile")


def test_secret_of_this_shell_reaches_the_ranks_and_no_file(laptop):
    spec = laptop.spec('echo "length ${#TOKEN}"', secrets={"TOKEN": {"env": "MY_TOKEN"}})
    done = laptop.dlrun("submit", spec, "--host", "login", "--wait", env={"MY_TOKEN": "canary-47113"})
    assert "length 12" in done.stdout
    assert laptop.there("grep -rl canary-47113 .local || true") == ""
    assert laptop.run("grep -rl canary-47113 .local work || true") == ""
    assert "MY_TOKEN" in laptop.dlrun("submit", spec, "--host", "login", code=2).stderr


def test_sweep_and_a_job_that_waits_for_another(laptop):
    waiting = "until [[ -e $HOME/go ]]; do sleep 0.2; done; echo point {{ lr }}"
    laptop.submit(laptop.spec(waiting, sweep={"lr": ["1", "2"]}))
    name = f"far{laptop.serial}"
    job = laptop.submit(laptop.spec("true", after=[name]))
    assert "afterok" in laptop.there(f"scontrol show job {job} | grep Dependency")
    laptop.there("touch go")
    done = laptop.dlrun("logs", "-f", name)
    assert "[0/rank 0] point 1" in done.stdout
    assert "[1/rank 0] point 2" in done.stdout
    assert [run["state"] for run in laptop.job(name)["runs"]] == ["completed", "completed"]
    assert laptop.ended(job)["state"] == "completed"


def test_roles(laptop):
    """Files, code, states, logs and the first cause of each role; the record and the job directory have the same layout."""
    laptop.run(
        "mkdir work/parts && cd work/parts && echo 'echo judged $(cat text)' >judge.sh && echo well >text"
    )
    judge = "bash judge.sh; touch ../judged; sleep 600"
    train = (
        "echo begun $DLRUN_ROLE_JUDGE_HOSTS; ls; echo 'ModuleNotFoundError: No module named nowhere'; exit 3"
    )
    roles = {
        "judge": {"framework": "mpi", "command": judge, "ready": {"log": "judged", "within": "1m"}},
        "train": {"command": train, "needs": ["judge"]},
    }
    more = {"directory": "parts", "files": ["."], "code": "snapshot"}
    spec = laptop.spec("", command=None, framework=None, resources={"walltime": "5m"}, roles=roles, **more)
    job = laptop.submit(spec)
    assert laptop.ended(job)["state"] == "failed"
    whole = laptop.job(job)
    assert [(role["role"], role["state"]) for role in whole["roles"]] == [
        ("judge", "ended"),
        ("train", "ended"),
    ]
    assert (whole["roles"][1]["exit_code"], whole["roles"][1]["hosts"]) == (3, ["n2"])
    (why,) = json.loads(laptop.dlrun("why", job, "--json").stdout)["why"]
    assert (why["cause"], why["first"]["host"]) == ("missing-module", "n2")
    assert why["log"] == "roles/train/logs/rank-0.log"
    shown = laptop.dlrun("logs", job).stdout
    assert "[judge/rank 0] judged well" in shown
    assert "[train/rank 0] begun n1" in shown
    only = laptop.dlrun("logs", job, "--role", "train").stdout
    assert {"judge.sh", "text"} <= set(only.split())
    assert "judged" not in only
    (copy,) = laptop.records_of(f"far{laptop.serial}")
    (there,) = laptop.directories_of(f"far{laptop.serial}")
    logs = "cd .local/state/dlrun/jobs && ls {}/roles/*/logs/rank-0.log"
    assert (
        laptop.run(logs.format(copy)).count("rank-0.log")
        == laptop.there(logs.format(there)).count("rank-0.log")
        == 2
    )
    laptop.dlrun("usage", job)
    again = json.loads(laptop.dlrun("resubmit", job, "--json").stdout)["job"]["job_id"]
    assert laptop.ended(again)["state"] == "failed"
    assert "[judge/rank 0] judged well" in laptop.dlrun("logs", again).stdout


def test_roles_whose_files_are_not_one_tree(laptop):
    roles = {"one": {"command": "true"}, "two": {"command": "true", "directory": "sub"}}
    spec = laptop.spec("", command=None, framework=None, roles=roles, files=["*.yaml"])
    said = laptop.dlrun("submit", spec, "--host", "login", code=2).stderr
    assert "sent as one tree" in said
    assert not laptop.directories_of(f"far{laptop.serial}")


def test_cancel_hold_and_release(laptop):
    job = laptop.submit(laptop.spec("sleep 100", hold=True))
    assert laptop.job(job)["runs"][0]["state"] == "held"
    laptop.dlrun("release", job)
    await_true(lambda: laptop.job(job)["runs"][0]["state"] == "running", 60, "the job to run")
    laptop.dlrun("cancel", job)
    assert laptop.ended(job)["state"] == "cancelled"


def test_resubmit_runs_where_the_job_ran(laptop):
    first = laptop.submit(laptop.spec("ls; touch step-1"))
    laptop.ended(first)
    done = laptop.dlrun("resubmit", first, "--wait")
    assert "step-1\n" in done.stdout
    assert len(laptop.directories_of(f"far{laptop.serial}")) == 2


def test_job_in_a_directory_that_is_there_already(laptop):
    laptop.there("mkdir -p project && echo mine > project/file")
    spec = laptop.spec("cat file", directory="~/project")
    assert "mine\n" in laptop.dlrun("submit", spec, "--host", "login", "--wait").stdout
    missing = laptop.dlrun("submit", laptop.spec("true", directory="~/no-such"), "--host", "login", code=2)
    assert "no-such` on `login`" in missing.stderr
    assert laptop.records_of(f"far{laptop.serial}") == laptop.directories_of(f"far{laptop.serial}") == []


def test_paths_of_the_spec_are_those_of_the_cluster(laptop):
    """What is missing there is a problem with its place; what is missing here is none."""
    laptop.there("mkdir -p sets/images")
    here = laptop.spec("ls -d {{ data.images }}", data={"images": "~/sets/images"})
    assert f"{laptop.home}/sets/images\n" in laptop.dlrun("submit", here, "--host", "login", "--wait").stdout
    bad = laptop.dlrun(
        "submit", laptop.spec("true", data={"images": "~/sets/imagse"}), "--host", "login", code=2
    )
    assert "DLR034" in bad.stderr
    assert f"{laptop.serial}.yaml:" in bad.stderr


@TRANSPORTS
def test_check_asks_the_scheduler_there(laptop, transport):
    words = ("submit", laptop.spec("true"), "--host", "login", "--transport", transport, "--check")
    assert " on n" in laptop.dlrun(*words).stdout
    refused = laptop.dlrun(*words, "--set", "resources.nodes=9", code=1)
    assert "rejects the job" in refused.stderr
    name = f"far{laptop.serial}"
    assert laptop.records_of(name) == laptop.directories_of(name) == laptop.jobs_called(name) == []


def test_refused_job_leaves_nothing(laptop):
    spec = laptop.spec("true", resources={"partition": "nowhere", "walltime": "5m"})
    refused = laptop.dlrun("submit", spec, "--host", "login", code=1)
    assert "invalid partition" in refused.stderr
    name = f"far{laptop.serial}"
    assert laptop.records_of(name) == laptop.directories_of(name) == []


STAGES = (
    "tar",
    "before-rename",
    "after-rename",
    "before-submit",
    "after-submit",
    "before-record",
    "after-record",
)


@TRANSPORTS
@pytest.mark.parametrize("stage", STAGES)
def test_server_that_dies_leaves_nothing_or_all_and_the_same_command_goes_on(laptop, stage, transport):
    """The job is held, so that what became of it can be learnt from the queue alone."""
    laptop.run("head -c 200000 /dev/urandom > work/weights")
    spec = laptop.spec("true", files=["weights"], hold=True)
    name = f"far{laptop.serial}"
    laptop.break_at(stage)
    broken = laptop.dlrun("submit", spec, "--host", "login", "--transport", transport, code=1)
    assert "submits nothing twice" in broken.stderr
    whole = [directory for directory in laptop.directories_of(name) if not directory.startswith(".")]
    assert len(whole) == (stage not in ("tar", "before-rename"))
    again = laptop.dlrun("submit", spec, "--host", "login", "--transport", transport, "--parsable")
    assert "resuming the submission of" in again.stderr
    assert laptop.jobs_called(name) == [again.stdout.strip()]
    (directory,) = laptop.directories_of(name)
    there = laptop.there(f"cksum < .local/state/dlrun/jobs/{directory}/files/weights")
    assert there == laptop.run("cksum < work/weights")
    assert len(laptop.records_of(name)) == 1
    laptop.there(f"scancel {again.stdout}")


def test_a_scaling_study_goes_on_where_the_login_host_died(laptop):
    """Its runs are submitted there once, and their speed is read from the logs there."""
    spec = laptop.spec("for i in 1 2 3; do echo $((WORLD_SIZE * 50)) images/s; done")
    words = ("scale", spec, "--nodes", "1,2", "--repeat", "2", "--out", "study")
    laptop.break_at("after-submit")
    broken = laptop.dlrun(*words, "--host", "login", code=1)
    assert "submits nothing twice" in broken.stderr
    done = laptop.dlrun(*words, timeout=200)  # the study knows where it runs
    assert "resuming the submission of 1xauto-1" in done.stderr
    data = json.loads(laptop.dlrun("scale", "show", "study", "--json").stdout)["scale"]
    assert [(row["nodes"], row["runs"], row["middle"]) for row in data["rows"]] == [(1, 2, 50), (2, 2, 100)]
    assert len(laptop.directories_of(f"far{laptop.serial}")) == 2
    assert laptop.records_of(f"far{laptop.serial}") == []


def test_controller_too_busy_to_answer_has_the_job_all_the_same(laptop):
    laptop.break_at("busy-submit")
    job = laptop.submit(laptop.spec("true", hold=True))
    assert laptop.jobs_called(f"far{laptop.serial}") == [job]


@TRANSPORTS
def test_cut_cable(laptop, cluster, transport):
    """The job goes through while the cable is cut; the same command then finds it."""
    spec = laptop.spec("true")
    name = f"far{laptop.serial}"
    laptop.break_at("slow-submit")
    process = laptop.start("dlrun", "submit", spec, "--host", "login", "--transport", transport)
    await_true(lambda: "slow-submit" not in laptop.there("ls told"), 60, "sbatch to be called")
    cluster.cut("laptop")
    try:
        out, err = process.communicate(timeout=120)
        laptop.there("touch told/go")
        await_true(lambda: laptop.jobs_called(name) != [], 60, "the job to go through")
    finally:
        cluster.join("laptop")
    assert process.returncode == 1, out + err
    assert "no connection to `login`" in err
    assert not MARK.search(err), err
    job = laptop.submit(spec, "--transport", transport)
    assert laptop.jobs_called(name) == [job]


def test_killed_dlrun_and_two_that_go_on_at_once(laptop):
    spec = laptop.spec("true")
    laptop.break_at("slow-submit")
    process = laptop.start("dlrun", "submit", spec, "--host", "login")
    await_true(lambda: "slow-submit" not in laptop.there("ls told"), 60, "sbatch to be called")
    kill(process)
    both = [laptop.start("dlrun", "submit", spec, "--host", "login", "--parsable") for _ in range(2)]
    waiting = "pgrep -xfc 'sleep 0.5' || true"  # what transport/scripts/submit.sh does meanwhile
    await_true(lambda: laptop.there(waiting) == "2\n", 120, "both to wait for the first")
    laptop.there("touch told/go")
    said = [one.communicate(timeout=120)[0].strip() for one in both]
    assert said == laptop.jobs_called(f"far{laptop.serial}") * 2


def test_changed_files_are_another_job(laptop):
    laptop.run("echo one > work/note")
    spec = laptop.spec("cat note", files=["note"])
    laptop.break_at("before-submit")
    laptop.dlrun("submit", spec, "--host", "login", code=1)
    laptop.run("echo two > work/note")
    assert "two\n" in laptop.dlrun("submit", spec, "--host", "login", "--wait").stdout
    assert len(laptop.jobs_called(f"far{laptop.serial}")) == 1


@TRANSPORTS
def test_only_what_changed_is_sent(laptop, transport):
    """The second of two jobs with 40 MB gets one file; each has copies of its own."""
    laptop.run(f"head -c 40000000 /dev/urandom > work/weights-{transport}; echo one {transport} > work/note")
    spec = laptop.spec(
        "cat note; cksum weights-*; rm -f weights-*; echo more >> note",
        files=["note", f"weights-{transport}"],
    )
    words = ("submit", spec, "--host", "login", "--transport", transport, "--wait")
    first = laptop.dlrun(*words)
    laptop.run(f"echo two {transport} > work/note")
    second = laptop.dlrun(*words)
    assert "to `login`: note; it had 1 more (40MB)" in second.stderr
    want = laptop.run(f"cd work && cksum weights-{transport}")
    for done, note in ((first, f"one {transport}\n"), (second, f"two {transport}\n")):
        assert note in done.stdout
        assert want in done.stdout


@pytest.mark.needs("git")
def test_the_code_that_was_sent_is_recorded_and_compared_at_each_start(laptop):
    """Commit and digests go with the job; an edit here changes nothing there, and what a run writes to its files is named."""
    commit = "git -c user.name=n -c user.email=e@x commit -qm first"
    laptop.run(
        f"mkdir work/code && cd work/code && git init -q && echo 1 > lib && echo 1 > other && git add . && {commit}"
    )
    laptop.run("mv work/code/* work/code/.git work/ && echo 2 >> work/lib && ln -s $(type -P git) bin/")
    script = "cat lib; if ((DLRUN_RESTART == 0)); then echo run >> lib; exit 1; fi"
    more = {"files": ["lib", "other"], "on_failure": {"requeue": 1, "user_error": "requeue"}}
    job = laptop.submit(laptop.spec(script, **more))
    laptop.run("echo today > work/other")
    assert laptop.ended(job)["state"] == "completed"
    assert "lib changed since the submission, between runs 1 and 2" in laptop.dlrun("status", job).stderr
    (row,) = json.loads(laptop.dlrun("results", job, "--json").stdout)["results"]
    head = laptop.run("git -C work rev-parse --short=7 HEAD").strip()
    assert row["commit"] == f"{head}-dirty-changed"
    shown = laptop.dlrun("diff", job).stdout
    assert "other" in shown
    assert "lib" not in shown
    again = json.loads(laptop.dlrun("resubmit", job, "--json").stdout)["job"]["job_id"]
    laptop.ended(again)
    assert "lib changed since the submission, before the first start" in laptop.dlrun("status", again).stderr
    job = laptop.submit(laptop.spec(script, **more, code="strict"))
    assert laptop.ended(job)["state"] == "failed"
    assert json.loads(laptop.dlrun("why", job, "--json").stdout)["why"][0]["cause"] == "code"


def test_each_run_of_a_snapshot_has_a_copy_of_the_sent_files(laptop, cluster):
    """What it writes there is its own, named and brought back, and no run finds what another has written to the code."""
    laptop.run(
        "mkdir work/snap && cd work/snap && echo 1 >lib && mkdir sub && echo 2 >sub/tool && chmod +x sub/tool && "
        "echo abc >.env && ln -s lib alias"
    )
    script = (
        "cat alias sub/tool; if [[ -w lib ]]; then echo writable; fi; ls; "
        "echo {{ n }} >out; echo mine >lib.new; mv -f lib.new lib; touch {{ submit_dir }}/of-{{ n }} 2>/dev/null"
    )
    more = {"directory": "snap", "files": ["."], "sweep": {"n": ["0", "1"], "at_once": 1}, "code": "snapshot"}
    done = laptop.dlrun("submit", laptop.spec(script, **more), "--host", "login", "--parsable")
    job, said = done.stdout.strip(), done.stderr
    assert "left out, since files of such names hold secrets: .env" in said
    laptop.dlrun("logs", "-f", job)
    jobs = ".local/state/dlrun/jobs"
    place = f"{jobs}/{laptop.directories_of(f'far{laptop.serial}')[0]}"
    record = f"{jobs}/{laptop.records_of(f'far{laptop.serial}')[0]}"
    for point in "01":
        log = laptop.there(f"cat {place}/points/{point}/logs/rank-0.log")
        assert log.split() == ["1", "2", "alias", "lib", "sub"]
    assert "changed" not in laptop.dlrun("status", job).stderr
    assert laptop.there(f"cat {place}/points/1/work/lib {place}/files/lib; ls {place}/files").split() == [
        "mine", "1", "alias", "lib", "of-0", "of-1", "sub",
    ]  # fmt: skip
    assert ".env" not in laptop.there(f"find {place}")
    laptop.dlrun("results", job, "--fetch")
    names = set(
        laptop.run(
            f"cd {record} && find points files work -type f 2>/dev/null | grep -v /logs/; true"
        ).split()
    )
    assert {"points/0/work/out", "points/1/work/out", "points/1/work/lib"} <= names
    assert not {name for name in names if name.endswith("tool")}
    laptop.dlrun("results", job, "--fetch", "out", "--to", "got")
    assert laptop.run("cd work/got && find . -type f").split() == [f"./points/{n}/work/out" for n in "01"]
    laptop.run("echo 9 >work/snap/lib")
    laptop.there(f"mv {place} {place}.away")
    again = json.loads(laptop.dlrun("resubmit", job, "--json").stdout)["job"]
    laptop.dlrun("logs", "-f", again["job_id"])
    laptop.there(f"mv {place}.away {place}")
    name = again["directory"].rpartition("/")[2].partition("@")[0]
    log = laptop.there(f"cat {jobs}/{name}/points/1/logs/rank-0.log")
    assert log.split() == ["1", "2", "alias", "lib", "sub"]
    done = laptop.dlrun("submit", laptop.spec(script, **more), "--host", "login", "--parsable")
    assert "it had 1 more" in done.stderr
    laptop.dlrun("logs", "-f", done.stdout.strip())
    # In the store, and for three jobs as sent, as the snapshot, and in the copy of each point.
    stored = f"find {jobs}/.dlrun-code-*/objects -type f -perm 500"
    assert laptop.there(f"stat -c %h $({stored})").split() == [str(1 + 3 * 4)]
    left = cluster.on("login", f"{PROGRAMS}/dlrun clean {place} --yes", check=True).stderr
    assert "work/out" in left
    laptop.there(f"rm {place}/points/*/work/{{out,lib}} {place}/files/of-*")
    said = cluster.on("login", f"{PROGRAMS}/dlrun clean {place} --yes", check=True).stderr
    assert not laptop.there(f"find {place} 2>/dev/null || true"), said


@TRANSPORTS
def test_full_disk(laptop, cluster, transport):
    place = cluster.shared / "scratch" / f"small-{transport}"
    cluster.on(
        "login",
        f"mkdir {place} && mount -t tmpfs -o size=2400k,mode=777 tmpfs {place}",
        user="root",
        check=True,
    )
    laptop.run("head -c 3000000 /dev/urandom > work/weights")
    spec = laptop.spec("true", files=["weights"])
    words = ("submit", spec, "--host", "login", "--transport", transport, "--job-dir", f"{place}/job")
    full = laptop.dlrun(*words, code=1)
    assert "No space left on device" in full.stderr
    assert "`--job-dir`" in full.stderr
    assert laptop.there(f"ls -A {place}") == ""
    assert laptop.records_of(f"far{laptop.serial}") == []
    laptop.run("echo small > work/weights")
    laptop.dlrun(*words)
    taken = laptop.dlrun(*words, code=2)
    assert "already exists" in taken.stderr


@TRANSPORTS
def test_changed_host_key_is_refused(laptop, transport):
    end_connections(laptop)
    laptop.run("(echo nonsense; echo -n 'impostor '; cat ~/.ssh/id_ed25519.pub) > ~/.ssh/known_hosts")
    spec = laptop.spec("true")
    refused = laptop.dlrun("submit", spec, "--host", "impostor", "--transport", transport, code=4)
    assert "the host key of `impostor` has changed" in refused.stderr
    unknown = laptop.dlrun("submit", spec, "--host", "stranger", "--transport", transport, code=4)
    assert "the host key of `stranger` is not known" in unknown.stderr


def test_changed_host_key_is_refused_whatever_the_configuration_says(laptop):
    end_connections(laptop)
    laptop.run("(echo -n 'impostor '; cat ~/.ssh/id_ed25519.pub) > ~/.ssh/known_hosts")
    before = laptop.run("cat .ssh/config")
    laptop.write(".ssh/config", f"StrictHostKeyChecking no\n{before}")
    try:
        refused = laptop.dlrun("submit", laptop.spec("true"), "--host", "impostor", code=4)
    finally:
        laptop.write(".ssh/config", before)
    assert "has changed" in refused.stderr


@pytest.mark.parametrize("host", ["strict", "inner"])
def test_second_factor_is_asked_for_once(laptop, host):
    """One code for submit, cancel, status and fetch together, also if the jump host wants it, and after Ctrl-C."""
    end_connections(laptop)
    env = asking(laptop)
    process = laptop.start("dlrun", "submit", laptop.spec("sleep 600"), "--host", host, "--wait", env=env)
    assert process.stdout is not None
    while not process.stdout.readline().startswith("dlrun: job"):
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)
    assert "the job is not cancelled" in process.communicate(timeout=120)[1]
    laptop.dlrun("cancel", "latest", env=env)
    laptop.dlrun("status", "latest", env=env)
    laptop.dlrun("fetch", "latest", env=env)
    assert len(questions(laptop)) == 1


@pytest.mark.parametrize("host", ["strict", "inner"])
def test_second_factor_at_a_terminal_by_paramiko(laptop, host):
    words = ("submit", laptop.spec("true"), "--host", host, "--transport", "paramiko", "--parsable")
    code, screen = laptop.at_terminal(SECOND_FACTOR, *words)
    assert code == 0, screen
    assert laptop.jobs_called(f"far{laptop.serial}") == [screen.split()[-1]]
    assert SECOND_FACTOR not in screen


def test_password_and_code_in_one_login_by_paramiko(laptop):
    words = ("submit", laptop.spec("true"), "--host", "both", "--transport", "paramiko", "--parsable")
    code, screen = laptop.at_terminal(SECOND_FACTOR, *words, times=2)
    assert code == 0, screen
    assert laptop.jobs_called(f"far{laptop.serial}") == [screen.split()[-1]]
    assert SECOND_FACTOR not in screen
    assert "Oops" not in screen


@TRANSPORTS
@pytest.mark.parametrize("host", ["strict", "inner"])
def test_nobody_to_ask_is_an_error_and_no_hang(laptop, host, transport):
    end_connections(laptop)
    words = ("submit", laptop.spec("true"), "--host", host, "--transport", transport)
    denied = laptop.dlrun(*words, code=4)
    assert "in a terminal" in denied.stderr


def test_users_own_shared_connection_is_used(laptop):
    end_connections(laptop)
    env = asking(laptop)
    before = laptop.run("cat .ssh/config")
    laptop.write(".ssh/config", f"ControlPath ~/.ssh/mine-%C\n{before}")
    try:
        login = laptop.start("/usr/bin/ssh", "-MNf", "strict", env=env)
        login.communicate(timeout=60)
        laptop.dlrun("submit", laptop.spec("true"), "--host", "strict")
        laptop.run("ssh -O exit strict 2>&1")
    finally:
        laptop.write(".ssh/config", before)
    assert len(questions(laptop)) == 1


def test_without_ssh_it_is_paramiko(laptop):
    words = ("submit", laptop.spec("true"), "--host", "login", "--parsable")
    done = laptop.dlrun(*words, env={"PATH": f"{laptop.home}/none:{PROGRAMS}"})
    assert laptop.jobs_called(f"far{laptop.serial}") == [done.stdout.strip()]


@TRANSPORTS
def test_following_survives_a_lost_connection(laptop, transport):
    go = f"$HOME/go-on-{transport}"
    script = f"printf 'line %s\\n' 1 2 3; until [[ -e {go} ]]; do sleep 0.2; done; printf 'line %s\\n' 4 5 6"
    laptop.submit(laptop.spec(script), "--transport", transport)
    name = f"far{laptop.serial}"
    with laptop.start("dlrun", "logs", "-f", name) as process:
        assert process.stdout is not None
        seen = ""
        while "line 2" not in seen:
            line = process.stdout.readline()
            assert line, process.communicate()
            seen += line
        laptop.there(f"pkill -KILL -u alice -f '^sshd: alice'; touch {go}")
        assert process.wait(timeout=120) == 0
        seen += process.stdout.read()  # communicate() would leave out what readline() has read ahead
        assert process.stderr is not None
        assert not MARK.search(err := process.stderr.read()), err
    lines = [line for line in seen.splitlines() if line.startswith("line")]
    assert lines == [f"line {i}" for i in range(1, 7)]


@TRANSPORTS
def test_fetch_goes_on_in_the_middle_of_a_large_file(laptop, transport):
    job = laptop.submit(
        laptop.spec("head -c 20000000 /dev/urandom > big; echo small > little"), "--transport", transport
    )
    laptop.ended(job)
    name = f"far{laptop.serial}"
    laptop.break_at("tail")
    laptop.dlrun("fetch", name, code=1)
    record = f".local/state/dlrun/jobs/{laptop.records_of(name)[0]}/files"
    assert laptop.run(f"cat {record}/little") == "small\n"
    got = int(laptop.run(f"stat -c %s {record}/.dlrun-*.part"))
    assert 0 < got < 20_000_000
    laptop.dlrun("fetch", name)
    assert laptop.there("grep big tails").splitlines()[-1] == f"-c +{got + 1} -- ./files/big"
    theirs = laptop.there(f"cksum < .local/state/dlrun/jobs/{laptop.directories_of(name)[0]}/files/big")
    assert laptop.run(f"cksum < {record}/big") == theirs
    assert laptop.run(f"ls -A {record}").split() == ["big", "little"]


def test_fetched_links_stay_inside(laptop):
    job = laptop.submit(
        laptop.spec("echo 1 > a; ln -s a good; ln -s /etc/passwd bad; ln -s ../../../../.ssh worse")
    )
    laptop.ended(job)
    done = laptop.dlrun("fetch", job)
    assert sorted(line.split()[1] for line in done.stderr.splitlines() if line.startswith("skipped")) == [
        "files/bad:", "files/worse:",
    ]  # fmt: skip
    assert laptop.run(f"cd {done.stdout.strip()}/files && readlink good; ls").split() == ["a", "a", "good"]


def test_dry_run_needs_no_connection(laptop, cluster):
    end_connections(laptop)
    cluster.cut("laptop")
    try:
        done = laptop.dlrun("submit", laptop.spec("true"), "--host", "login", "--dry-run")
    finally:
        cluster.join("laptop")
    assert "#SBATCH" in done.stdout
    assert "`login` was not queried" in done.stderr
    assert "nothing was submitted" in done.stderr
    assert laptop.records_of(f"far{laptop.serial}") == []


def test_login_host_tells_its_site(laptop):
    spec = laptop.spec("true", site=None)
    assert "job directory: login:" in laptop.dlrun("submit", spec, "--host", "login").stdout
    assert laptop.job(f"far{laptop.serial}")["site"] == "far"


def test_login_of_the_site_is_used_where_no_client_is_here(laptop):
    site = {**SITE, "name": "mine", "login": {"host": "login", "transport": "paramiko"}}
    laptop.write("work/mine.yaml", yaml.safe_dump(site))
    done = laptop.dlrun("submit", laptop.spec("true", site="./mine.yaml"))
    assert "job directory: login:" in done.stdout
    assert laptop.run(
        f"cat .local/state/dlrun/jobs/{laptop.records_of(f'far{laptop.serial}')[0]}/submission.json"
    ).count("paramiko")


def test_list_works_while_the_login_host_is_away(laptop, cluster):
    job = laptop.submit(laptop.spec("sleep 5"))
    name = f"far{laptop.serial}"
    end_connections(laptop)
    cluster.cut("laptop")
    try:
        listed = laptop.dlrun("list").stdout
        away = laptop.dlrun("status", job)
    finally:
        cluster.join("laptop")
    (line,) = [row for row in listed.splitlines() if row.startswith(name)]
    assert line.split()[3] == "unknown"
    assert "no connection to `login`" in away.stderr
    assert laptop.ended(job)["state"] == "completed"


def test_commands_share_one_connection(laptop):
    laptop.submit(laptop.spec("true"))
    logins = "grep -c 'Accepted publickey for alice' /var/log/sshd.log"
    before = int(laptop.cluster.on("login", logins, user="root").stdout)
    for _ in range(3):
        laptop.dlrun("status", "latest")
    assert int(laptop.cluster.on("login", logins, user="root").stdout) == before


PBS = {
    "name": "far",
    "scheduler": {"type": "openpbs", "arithmetic": "per_node"},
    "launcher": {"name": "ssh"},
}


@pytest.fixture(scope="module")
def pbs():
    spec = ClusterSpec(scheduler="pbs", node_types=(NodeType(count=2),), outside=("laptop",), sshd=True)
    with Cluster(spec, name=f"remote-pbs-{os.getpid()}") as running:
        yield Laptop(running, PBS)


@pytest.mark.skipif(bool(why_no_pbs()), reason=why_no_pbs())
def test_pbs_from_submit_to_the_last_result(pbs):
    spec = pbs.spec(
        f"mkdir -p out && hostname > out/$DLRUN_RANK; {fail_last(3)}",
        resources={"nodes": 2, "walltime": "5m", "ranks_per_node": 1},
    )
    pbs.dlrun("submit", spec, "--host", "login", "--wait", code=3)
    record = pbs.dlrun("fetch", "latest").stdout.strip()
    assert pbs.run(f"cd {record}/files && cat out/0 out/1").split() == ["n1", "n2"]


@pytest.mark.skipif(bool(why_no_pbs()), reason=why_no_pbs())
def test_a_pbs_job_that_submits_itself_again_is_followed_to_its_last_run(pbs):
    """Its next run has an id of its own, which only the login node knows at first."""
    twice = 'echo "run $DLRUN_RESTART"; sleep 3; ((DLRUN_RESTART))'
    spec = pbs.spec(twice, on_failure={"requeue": 1, "user_error": "requeue"})
    assert "run 1\n" in pbs.dlrun("submit", spec, "--host", "login", "--wait").stdout
    (run,) = json.loads(pbs.dlrun("status", "latest", "--json").stdout)["jobs"][0]["runs"]
    assert (run["state"], run["restarts"]) == ("completed", 1)


@pytest.mark.skipif(bool(why_no_pbs()), reason=why_no_pbs())
@pytest.mark.parametrize("stage", ["before-submit", "after-submit", "after-record"])
def test_pbs_submits_once(pbs, stage):
    spec = pbs.spec("true", hold=True)
    pbs.break_at(stage)
    pbs.dlrun("submit", spec, "--host", "login", code=1)
    job = pbs.submit(spec)
    listed = pbs.there(f"qselect -N far{pbs.serial}").split()
    assert listed == [job]
    pbs.dlrun("cancel", job)


@pytest.mark.skipif(bool(why_no_pbs()), reason=why_no_pbs())
def test_pbs_runs_what_was_sent_although_it_is_edited_here(pbs):
    pbs.run("mkdir work/snap && echo 1 >work/snap/lib")
    more = {"directory": "snap", "files": ["."], "hold": True}
    jobs = [pbs.submit(pbs.spec("cat lib", **more, code=mode)) for mode in ("record", "strict", "snapshot")]
    pbs.run("echo 2 >work/snap/lib")
    jobs.append(json.loads(pbs.dlrun("resubmit", jobs[-1], "--json").stdout)["job"]["job_id"])
    pbs.dlrun("release", *jobs)
    for job in jobs:
        assert pbs.ended(job)["state"] == "completed"
        assert pbs.dlrun("logs", job, "--rank", "0").stdout.splitlines()[-1] == "[rank 0] 1"
        assert "changed" not in pbs.dlrun("status", job).stderr
    today = json.loads(pbs.dlrun("resubmit", jobs[-1], "--code", "now", "--json").stdout)["job"]["job_id"]
    pbs.dlrun("release", today)
    pbs.ended(today)
    assert pbs.dlrun("logs", today, "--rank", "0").stdout.splitlines()[-1] == "[rank 0] 2"


def test_a_job_does_not_meet_a_fault_that_is_for_its_login_host(laptop):
    """Its nodes have the same home directory and PATH; else whichever came first would meet the fault."""
    laptop.there("rm -f go")
    job = laptop.submit(laptop.spec("until [[ -e $HOME/go ]]; do sleep 0.1; done"))
    await_true(lambda: laptop.job(job)["runs"][0]["state"] == "running", 60, "the job to run")
    laptop.break_at("before-rename")
    laptop.there("touch go")
    assert laptop.ended(job)["state"] == "completed"
    assert laptop.there("ls told; rm go told/*").split() == ["before-rename"]


@TRANSPORTS
def test_points_are_added_to_a_job_there_once_whatever_breaks_off(laptop, transport):
    """The login host dies between the replacement of the page and of the plan, and after both; points are cancelled from here."""
    how = ("--host", "login", "--transport", transport)
    sweep = {"nodes": 2, "points_per_node": 2, "x": [1, 2]}
    # Beside the job directory: each point notes its start there, and waits for the file `go`.
    script = "echo {{ x }} >>$HOME/points; until [ -e $HOME/go ]; do sleep 0.2; done"
    more = {"sweep": sweep, "resources": {"ranks_per_node": 1, "cpus_per_rank": 1, "walltime": "5m"}}
    laptop.there("rm -f points go")
    spec = laptop.spec(script, placement={"bind": "none"}, **more)
    name = f"far{laptop.serial}"
    laptop.dlrun("submit", spec, *how)

    def add(values, *words, code=0):
        return laptop.dlrun("submit", spec, "--set", f"sweep.x={values}", "--add-to", name, *words, code=code)

    def states():
        return [run["state"] for run in laptop.job(name)["runs"]]

    await_true(lambda: states() == ["running"] * 2, 60, "both points")
    shown = add("[2, 3]", *how, "--dry-run")
    assert shown.stdout.endswith("as point 2\n  2: x=3\n")
    assert len(states()) == 2
    data = json.loads(add("[2, 3]", *how, "--json").stdout)["job"]
    assert (data["points"], data["host"]) == ([2], "login")
    place = data["remote_directory"]
    for stage, value in (("before-rename", 4), ("after-rename", 5)):
        laptop.break_at(stage)
        said = add(f"[{value}]", *how, code=None)
        assert said.returncode == 1, said
        assert stage not in laptop.there("ls told")
        again = add(f"[{value}]", *how)
        assert again.stdout.endswith(f" as point {value - 1}\n"), again
        assert "has these points already" in add(f"[{value}]").stderr
    points = json.loads(laptop.there(f"cat {place}/plan.json"))["points"]
    assert [point["parameters"]["x"] for point in points] == ["1", "2", "3", "4", "5"]
    await_true(lambda: states()[3] == "running", 60, "an added point")
    assert states()[4] == "pending"
    laptop.dlrun("cancel", f"{name}:1,4")
    await_true(lambda: states()[1] == "cancelled", 60, "the end of a point that ran")
    laptop.there("touch go")
    expected = ["completed", "cancelled", "completed", "completed", "cancelled"]
    await_true(lambda: states() == expected, 60, "the end of all points")
    assert sorted(laptop.there("cat points").split()) == ["1", "2", "3", "4"], "each started once"
    late = add("[6]", *how, code=1)
    assert "has ended, so it takes no more points: nothing was added" in late.stderr
    assert "is on `login`, not on `gate`" in add("[6]", "--host", "gate", code=2).stderr
    assert len(states()) == 5
    left = laptop.there(f"ls -A {place} | grep '^[.]dlrun-.*[.]new$' || true").split()
    assert len(left) <= 4, "only what the two that died had not renamed, by names that prove whose it is"
