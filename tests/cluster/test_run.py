"""`dlrun run` in real allocations: ranks on all nodes, bound, and nothing left of them however they end."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import time

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, cgroups, why_not
from tests.cluster.hosts import await_true
from tests.cluster.jobs import PYTHON, SLURM_SITE, User
from tests.frameworks import install
from tests.meeting import ALL_HERE

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(why_not()), reason=why_not())]

SHOW = 'echo "rank $RANK of $WORLD_SIZE on $(uname -n) cores $(taskset -c -p $$ | sed "s/.*: //")"'
SLEEP = "sleep 1" + "0" * 3 + ".125"
"""A program whose arguments are found in no other process."""


@pytest.fixture(scope="module")
def cluster():
    spec = ClusterSpec(
        node_types=(NodeType(count=2),),
        partitions=(Partition(name="work", default=True, max_time="1-00:00:00"),),
        cgroup=not cgroups.why_not(),
        slurm_conf=("KillWait=2",),
    )
    with Cluster(spec, name=f"run-{os.getpid()}") as running:
        yield running


@pytest.fixture(scope="module")
def alice(cluster):
    return User(cluster, SLURM_SITE)


def environment(alice: User) -> dict[str, str]:
    return {
        "DLRUN_SITE": str(alice.directory / "site.yaml"),
        "PATH": f"{PYTHON}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
    }


def line(*words: str) -> list[str]:
    return [str(PYTHON / "dlrun"), "run", *words]


def salloc(alice: User, *words: str, options: tuple[str, ...] = ("-N2", "--exclusive"), on_node: bool = True):
    """Run a command line in an allocation: in a step on its first node, or on the login node."""
    step = ["srun", "-N1", "-n1"] if on_node else []
    return alice.cluster.on(
        "login", ["salloc", *options, "-t", "10", *step, *words], user="alice", env=environment(alice),
        cwd=str(alice.directory), timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize("on_node", [True, False])
def test_ranks_are_on_all_nodes_of_the_allocation_and_bound(alice, on_node):
    """In a step that holds the CPUs of the first node, and on the login node that holds the allocation."""
    done = salloc(
        alice, *line("--ranks-per-node", "2", "--all-ranks", "--", "bash", "-c", SHOW), on_node=on_node
    )
    assert done.returncode == 0, done.stdout + done.stderr
    ranks = sorted(one for one in done.stdout.splitlines() if " of 4 on " in one)
    assert ranks == [
        "[rank 0] rank 0 of 4 on n1 cores 0-3",
        "[rank 1] rank 1 of 4 on n1 cores 4-7",
        "[rank 2] rank 2 of 4 on n2 cores 0-3",
        "[rank 3] rank 3 of 4 on n2 cores 4-7",
    ], done.stdout + done.stderr


def test_two_runs_beside_each_other_on_different_nodes_do_not_meet(alice):
    show = 'echo "rank $RANK on $(uname -n) at $MASTER_ADDR"; sleep 2'
    runs = [
        shlex.join(line("--hosts", host, "--ranks-per-node", "2", "--all-ranks", "--", "bash", "-c", show))
        for host in ("n1", "n2")
    ]
    done = salloc(alice, "bash", "-c", f"{runs[0]} >one & first=$!; {runs[1]} >two & wait $! && wait $first")
    assert done.returncode == 0, done.stdout + done.stderr
    for host, name in (("n1", "one"), ("n2", "two")):
        said = (alice.directory / name).read_text()
        for rank in (0, 1):
            assert f"[rank {rank}] rank {rank} on {host} at {host}" in said


def test_the_exit_code_is_the_trainings_and_the_job_is_found_by_other_commands(alice):
    fails = f"echo before; {ALL_HERE}; if ((RANK == 3)); then exit 7; fi; sleep 60"
    done = salloc(alice, *line("--ranks-per-node", "2", "--name", "failing", "--", "bash", "-c", fails))
    assert done.returncode == 7, done.stdout + done.stderr
    assert done.stdout == "before\n"
    assert "rank 3 ended with exit code 7" in done.stderr
    (job,) = (
        one for one in json.loads(alice.dlrun("list", "--json").stdout)["jobs"] if one["name"] == "failing"
    )
    assert [run["state"] for run in job["runs"]] == ["failed"]
    assert alice.why(job["directory"])["first"]["rank"] == 3
    # What it used is not asked: such a short run may end before the first sample of its ranks.
    assert alice.dlrun("usage", job["directory"]).stdout.startswith("failing-")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGKILL], ids=lambda one: one.name)
@pytest.mark.parametrize("on_node", [True, False])
def test_however_it_ends_nothing_is_left_on_any_node(alice, number, on_node):
    """A program that ignores SIGTERM, and one that has left its rank's session; benchmarks/run.py takes the time."""
    program = f"trap '' TERM; setsid {SLEEP} & echo begun; {SLEEP}; {SLEEP}"
    words = line("--ranks-per-node", "2", "--", "bash", "-c", program)
    step = ["srun", "-N1", "-n1"] if on_node else []
    # Its id is printed by the shell that becomes dlrun.
    started = ["bash", "-c", 'echo "$$" >pid; exec "$0" "$@"', *words]
    process = alice.cluster.popen(
        "login", ["salloc", "-N2", "--exclusive", "-t", "10", *step, *started], user="alice",
        env=environment(alice), cwd=str(alice.directory),
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        host = "n1" if on_node else "login"
        pid = (alice.directory / "pid").read_text().strip()
        await_true(lambda: left(alice, "n2") > 0, 10, "the ranks of the second node")
        alice.cluster.on(host, ["kill", f"-{int(number)}", pid], user="alice", check=True)
        await_true(
            lambda: not any(left(alice, node) for node in ("n1", "n2", "login")),
            20,
            "the end of all processes",
        )
        if (
            number != signal.SIGKILL
        ):  # a step whose program is killed is killed by Slurm: the next run takes the port over
            await_true(lambda: locks(alice, host) == [], 10, "the port to be given back")
    finally:
        alice.cluster.on("login", ["scancel", "--user=alice"], user="alice")
        process.communicate(timeout=60)


def locks(alice: User, host: str) -> list[str]:
    """The ports that runs have reserved on a host."""
    return alice.cluster.on(host, "ls -A /tmp/dlrun-ports-*", user="root").stdout.split()


def left(alice: User, host: str) -> int:
    """How many of the program's processes a host has."""
    return int(alice.cluster.on(host, f"pgrep -fxc '{SLEEP}' || true", user="root").stdout)


ROLES = {
    "judge": {"run": "echo judge on $(uname -n); exec python3 -m http.server {{ role.judge.port }}"},
    "train": {
        "run": "curl -sf -o /dev/null http://{{ role.judge.address }}/ && echo asked from $(uname -n)\n{more}",
        "needs": ["judge"],
        "ranks_per_node": 1,
    },
}


def of_roles(alice: User, more: str) -> str:
    text = json.dumps({"name": "several", "roles": ROLES}).replace("{more}", more)
    return str(alice.write("several.yaml", json.loads(text)))


@pytest.mark.parametrize("on_node", [True, False])
def test_several_programs_divide_the_nodes_of_the_allocation(alice, on_node):
    done = salloc(alice, *line(of_roles(alice, "exit 3")), on_node=on_node)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "judge on n1" in done.stdout, done.stdout + done.stderr
    assert "asked from n2" in done.stdout, done.stdout + done.stderr
    done = salloc(alice, *line("--hosts", "n2,n1", of_roles(alice, "exit 0")), on_node=on_node)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "judge on n2" in done.stdout, done.stdout + done.stderr
    assert "asked from n1" in done.stdout, done.stdout + done.stderr
    done = salloc(alice, *line("--hosts", "n2", of_roles(alice, "exit 0")), on_node=on_node)
    assert done.returncode == 2, done.stdout + done.stderr
    for node in ("n1", "n2", "login"):
        found = alice.cluster.on(node, "pgrep -fac '[h]ttp.server' || true", user="root").stdout
        assert int(found) == 0, "the judge has ended with the run"


def test_what_the_allocation_is_too_small_for_is_said_before_anything_starts(alice):
    one = ("-N1", "-n1", "-c1")
    words = line("--ranks-per-node", "4", "--", "true")
    done = salloc(alice, *words, options=one, on_node=False)
    assert done.returncode == 2
    assert "has 1 CPU on each node, but the plan needs 4 (4 ranks)" in done.stderr
    assert "`salloc --nodes=1 --ntasks-per-node=4 --cpus-per-task=1`" in done.stderr
    done = salloc(alice, *line("--nodes", "2", "--", "true"), options=one, on_node=False)
    assert done.returncode == 2
    assert "has 1 node, but the plan needs 2" in done.stderr
    done = salloc(alice, *line("--hosts", "n7", "--", "true"), options=one, on_node=False)
    assert "host `n7` is not in allocation" in done.stderr


def test_ranks_of_a_part_of_a_node_divide_what_was_granted(alice):
    options = ("-N2", "--ntasks-per-node=2", "-c2")
    done = salloc(alice, *line("--all-ranks", "--", "bash", "-c", SHOW), options=options, on_node=False)
    assert done.returncode == 0, done.stdout + done.stderr
    ranks = [one.partition(" cores ") for one in done.stdout.splitlines() if " of 4 on " in one]
    assert len(ranks) == 4
    if not cgroups.why_not():
        assert all(len(cores.split(",")) == 2 or "-" in cores for _, _, cores in ranks), done.stdout


OWN = """\
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=2
#SBATCH --exclusive -t 5
set -eu
trap 'echo "the trap $?"' EXIT
mkdir -p below && cd below
export OWN="1 2" NCCL_SOCKET_IFNAME=eth1 MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
EXTRA=(--name "a b" '*')

time LINE \\
    bash ../show.sh --lr 0.1 \\
    "${EXTRA[@]}" 2>&1 | grep -v '^\\[job\\]'  # all of it
echo after
"""
SHOWS = (
    'echo "rank $SLURM_PROCID of $SLURM_NTASKS on $(uname -n) in ${PWD##*/}, '
    'own $OWN over $NCCL_SOCKET_IFNAME at $MASTER_ADDR: $# $*"'
)


@pytest.mark.parametrize(
    "line",
    [
        "srun --cpu-bind=none",
        "srun -N $SLURM_NNODES --ntasks=$((SLURM_NTASKS / 2)) --ntasks-per-node=$((SLURM_NTASKS / SLURM_NNODES / 2))",
        "srun -n 1 -N 1",
        "srun --ntasks=$SLURM_NTASKS \\\n    --cpus-per-task=${SLURM_CPUS_PER_TASK:-1}",
    ],
)
def test_a_batch_script_and_its_one_line_change_start_the_same_ranks(alice, line):
    """Everything else of the script stays: its directives, its directory, its variables, its trap, its pipe."""
    alice.write("show.sh", SHOWS)
    script = alice.write("own.sh", OWN.replace("LINE", line))
    changed = alice.directory / f"changed-{time.monotonic_ns()}.sh"
    alice.dlrun("init", "--from", str(script), "--run", "-o", str(changed))
    text = changed.read_text().replace("dlrun run", "dlrun run --all-ranks")
    before, after = OWN.split("time LINE", 1)
    assert text.startswith(f"{before}time dlrun run --all-ranks ")
    assert text.endswith("bash ../show.sh" + after.split("bash ../show.sh", 1)[1])
    found = []
    for each in (script.read_text(), text):
        log = alice.directory / "own.log"
        alice.cluster.on(
            "login", ["sbatch", "--wait", f"--output={log}", str(alice.write("run.sh", each))], user="alice",
            env=environment(alice), cwd=str(alice.directory), check=True,
        )  # fmt: skip
        said = log.read_text().splitlines()
        assert said[-1] == "the trap 0"
        assert "after" in said
        found.append(sorted(one.partition("rank ")[2] for one in said if " own 1 2" in one))
    # With `--all-ranks` each line begins with `[rank N] `.
    assert found[0] == [one.partition("rank ")[2] for one in found[1]], found
    assert found[0]


def test_runs_in_a_row_leave_no_port_no_process_and_no_file_but_their_directories(alice):
    run = shlex.join(line("--ranks-per-node", "2", "--name", "again", "--", "true"))
    for host in ("n1", "n2"):
        alice.cluster.on(host, "rm -rf /tmp/dlrun-ports-*", user="root")
    before = {path.name for path in alice.directory.iterdir()}
    done = salloc(alice, "bash", "-c", f"for i in {{1..10}}; do {run} || exit; done")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {path.name for path in alice.directory.iterdir()} == before
    for host in ("n1", "n2"):
        assert locks(alice, host) == []
        assert alice.cluster.on(host, "pgrep -u alice || true", user="root").stdout == ""


@pytest.mark.torch
def test_torch_trains_in_an_allocation(alice):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    train = PYTHON.parent.parent / "examples" / "digits" / "train.py"
    words = line(
        "--ranks-per-node", "2", "--set", "placement.threads=1", "--", "python", str(train), "--epochs", "3"
    )
    done = salloc(alice, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "with 4 ranks, replicas equal" in done.stdout


def example(framework: str, *options: str) -> list[str]:
    """A run of a framework's example in its own environment; skips the test where that cannot be made."""
    if reason := install.why_not(framework):
        pytest.skip(reason)
    try:
        python = install.environment(framework) / "bin" / "python"
    except install.InstallError as fault:
        pytest.skip(str(fault))
    train = PYTHON.parent.parent / "examples" / framework / "train.py"
    shown = ("--ranks-per-node", "2", "--all-ranks", "--framework", framework)
    return line(*shown, *options, "--", str(python), str(train))


def check_example(said: str, library: str) -> None:
    """Each rank once, two on each of two nodes, with the library, and all with the same parameters."""
    hosts = [
        host for n in range(4) for host in re.findall(rf"\] rank {n} of 4\b.* on (\w+), {library}", said)
    ]
    assert [hosts.count(host) for host in hosts] == [2] * 4, said
    assert len(set(re.findall(r"parameters (\w+)", said))) == 1, said


@pytest.mark.parametrize("on_node", [True, False])
def test_plain_mpi_runs_in_an_allocation(alice, on_node):
    """Also where the allocation, or the step, was given one task on each node."""
    done = salloc(alice, *example("mpi", "--launcher", "openmpi"), on_node=on_node)
    assert done.returncode == 0, done.stdout + done.stderr
    check_example(done.stdout, "Open MPI")


HYDRA = """\
import os
import hydra

@hydra.main(version_base=None, config_path=".", config_name="config")
def main(config):
    names = ("SUBMITIT_EXECUTOR", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_JOB_NUM_NODES")
    print("task", config.task, *(os.environ.get(name) for name in names))

if __name__ == "__main__":
    main()
"""


def test_a_multirun_of_hydra_is_one_job_array(alice):
    """A program that imports submitit, with the launcher of its configuration changed."""
    pytest.importorskip("hydra", reason="hydra is not installed")
    alice.write("submitit.py", "")
    alice.write("multi.py", HYDRA.replace("import hydra\n", "import hydra\nimport submitit\n"))
    alice.write("config.yaml", "defaults:\n  - override hydra/launcher: dlrun\ntask: 1\n")
    sizes = [f"hydra.launcher.resources.{one}" for one in ("nodes=2", "ranks_per_node=1", "walltime=5m")]
    done = alice.cluster.on(
        "login", ["python", "multi.py", "-m", "task=1,2", *sizes], user="alice", env=environment(alice),
        cwd=str(alice.directory), timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (job,) = (
        one for one in json.loads(alice.dlrun("list", "--json").stdout)["jobs"] if one["name"] == "multi"
    )
    for point, task in enumerate((1, 2)):
        for rank in (0, 1):
            log = alice.dlrun("logs", f"{job['directory']}:{point}", "--rank", str(rank)).stdout
            assert f"task {task} slurm 2 {rank} 2\n" in log


def test_submit_from_the_login_node_follows_the_job(alice):
    fails = f'echo "rank $RANK on $(uname -n)"; {ALL_HERE}; exit 5'
    words = line(
        "--submit", "--nodes", "2", "--ranks-per-node", "1", "--set", "resources.walltime=5m", "--all-ranks"
    )
    done = alice.cluster.on(
        "login", [*words, "--", "bash", "-c", fails], user="alice", env=environment(alice), cwd=str(alice.directory), timeout=120
    )  # fmt: skip
    assert done.returncode == 5, done.stdout + done.stderr
    for rank, host in ((0, "n1"), (1, "n2")):
        assert f"rank {rank} on {host}" in done.stdout
    assert "submitted bash to test-slurm as job " in done.stderr


def test_interactive_gets_an_allocation_runs_in_it_and_gives_it_back(alice):
    words = line(
        "--interactive",
        "--nodes",
        "2",
        "--ranks-per-node",
        "2",
        "--set",
        "resources.walltime=5m",
        "--all-ranks",
    )
    ends = f"{SHOW}; {ALL_HERE}; exit 5"
    done = alice.cluster.on(
        "login", [*words, "--", "bash", "-c", ends], user="alice", env=environment(alice), cwd=str(alice.directory),
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 5, done.stdout + done.stderr
    ranks = sorted(one for one in done.stdout.splitlines() if one.startswith("[rank ") and " of 4 on " in one)
    assert [one.partition(" cores ")[0].rpartition(" ")[2] for one in ranks] == ["n1", "n1", "n2", "n2"]
    assert alice.cluster.on("login", ["squeue", "-h"], user="alice").stdout == ""
