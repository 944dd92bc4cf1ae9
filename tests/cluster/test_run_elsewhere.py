"""`dlrun run` in real allocations of Grid Engine, Flux and OpenPBS, and into jobs there by `dlrun shell` and `dlrun tunnel`.

Terminals are here also those of Slurm.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import pytest

from tests.cluster import (
    Cluster,
    ClusterSpec,
    NodeType,
    Partition,
    why_no_flux,
    why_no_gridengine,
    why_no_pbs,
    why_not,
)
from tests.cluster.hosts import await_none, await_true
from tests.cluster.jobs import PYTHON, SLURM_SITE, User
from tests.cluster.test_run import check_example, example, of_roles
from tests.frameworks.install import CACHE

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(why_not()), reason=why_not())]

SHOW = 'echo "rank $RANK of $WORLD_SIZE on $(uname -n) cores $(taskset -c -p $$ | sed "s/.*: //")"\n'
SLEEP = "sleep 1" + "0" * 3 + ".375"
"""A program whose arguments are found in no other process."""
MPICH_HERE = f"LD_LIBRARY_PATH={CACHE}/mpi/links MPI4PY_MPIABI=mpich"
STAY = f"trap '' TERM\nsetsid {SLEEP} &\necho begun\n{SLEEP}\n{SLEEP}\n"
"""It ignores SIGTERM, and has left its rank's session."""
AGAIN = STAY.replace("setsid", f"for i in {{1..40}}; do (while :; do {SLEEP}; done) & done\nsetsid", 1)
"""What it starts is started again when it was killed, also while the scheduler kills one process after another."""
LINE = f"{PYTHON}/dlrun run --ranks-per-node 2"
SERVE = (
    "mkdir -p $RANK; cd $RANK; uname -n > index.html; exec python3 -m http.server --bind 127.0.0.1 18800\n"
)


@dataclass(frozen=True)
class Way:
    """How a scheduler gives two whole nodes: to a batch script (its first lines, and what runs it to its end), and to a shell.

    terminal: whether the shell has a terminal of its own. `qrsh` has none: Ctrl-C ends it, and it may outlive its terminal, of
    which a run in its job sees the end of its standard input only, as it does of commands that are piped to `qrsh`.
    """

    why_not: Callable[[], str]
    head: str
    batch: str
    shell: str
    terminal: bool = True


WAYS = {
    "slurm": Way(
        why_not,
        "#SBATCH -N2 --exclusive -t 10 --output=own.log\n",
        "sbatch --wait own.sh",
        "salloc -N2 --exclusive -t 10 bash --norc -i",
    ),
    "gridengine": Way(
        why_no_gridengine,
        "#$ -cwd -V -pe mpi-8 16 -l exclusive=true -j y -o own.log -S /bin/bash\n",
        "qsub -sync y own.sh",
        "qrsh -now no -pe mpi-8 16 -l exclusive=true -V -cwd bash --norc -i",
        terminal=False,
    ),
    "flux": Way(
        why_no_flux,
        "#flux: -N2 -x --output=own.log --error=own.log\n",
        "flux job attach $(flux batch own.sh)",
        "flux alloc -N2 -x bash --norc -i",
    ),
    "pbs": Way(
        why_no_pbs,
        "#PBS -l select=2:ncpus=8,place=scatter:excl\n#PBS -V -j oe -o own.log\ncd $PBS_O_WORKDIR\n",
        "qsub -W block=true own.sh",
        "qsub -I -V -l select=2:ncpus=8,place=scatter:excl",
    ),
}


@pytest.fixture(scope="module", params=WAYS)
def cluster(request):
    if why := WAYS[request.param].why_not():
        pytest.skip(why)
    spec = ClusterSpec(
        scheduler=request.param,
        node_types=(NodeType(count=3),),
        partitions=(Partition(name="work", default=True, max_time="1-00:00:00"),),
        sshd=True,
    )
    with Cluster(spec, name=f"run-{request.param}-{os.getpid()}") as running:
        yield running


@pytest.fixture(scope="module")
def alice(cluster):
    slurm = cluster.spec.scheduler == "slurm"
    site = (
        SLURM_SITE if slurm else importlib.import_module(f"tests.cluster.test_{cluster.spec.scheduler}").SITE
    )
    user = User(cluster, {**site, "node_types": {"n": {"topology": {"packages": 2, "cores": 4}}}})
    user.write("show.sh", SHOW)
    user.write("stay.sh", STAY)
    user.write("again.sh", AGAIN)
    return user


@pytest.fixture(autouse=True)
def not_twice(cluster, request):
    """On Slurm only what needs a terminal."""
    if cluster.spec.scheduler == "slurm" and "terminal" not in request.fixturenames:
        pytest.skip("on Slurm: tests/cluster/test_run.py, tests/cluster/test_inside.py")


@pytest.fixture
def way(cluster) -> Way:
    return WAYS[cluster.spec.scheduler]


@pytest.fixture
def nothing_is_left(alice):
    """However runs end: no process, no port and no file of theirs on any node."""
    yield
    await_none(lambda: left(alice), 60, "the end of all processes and files")


def left(alice: User) -> list[str]:
    """What runs have left on the nodes: processes of their programs, and files."""
    look = f"pgrep -afx '{SLEEP}|.*[/]dlrun run .*|.*[/](job|rank)[.]sh.*'; ls -A /tmp/dlrun-ports-* /dev/shm; true"
    return [
        f"{host}: {line}"
        for host in alice.cluster.spec.nodes
        for line in alice.cluster.on(host, look, user="root").stdout.splitlines()
        if line and not line.endswith(":")
    ]


def sleeping(alice: User) -> int:
    """How many processes of the program there are on all nodes."""
    look = f"pgrep -fxc '{SLEEP}' || true"
    return sum(int(alice.cluster.on(host, look, user="root").stdout) for host in alice.cluster.spec.nodes)


def start(alice: User, words: str, host: str = "login", **how):
    """A command of Alice's."""
    return alice.cluster.popen(
        host,
        f"PATH={PYTHON}:$PATH; {words}",
        user="alice",
        env={"DLRUN_SITE": str(alice.directory / "site.yaml")},
        cwd=str(alice.directory),
        **how,
    )


def batch(alice: User, way: Way, lines: str, within: float = 180) -> tuple[int, str]:
    """The exit code and the log of a batch script."""
    log = alice.directory / "own.log"
    log.unlink(missing_ok=True)
    alice.write("own.sh", f"#!/bin/bash\n{way.head}{lines}")
    script = start(alice, way.batch)
    out, errors = script.communicate(timeout=within)
    await_true(log.exists, 60, "the log")
    assert script.returncode is not None, out + errors
    return script.returncode, log.read_text()


class Terminal:
    """A terminal in which a shell in an allocation has been started."""

    def __init__(self, alice: User, way: Way) -> None:
        self.alice, self.said = alice, ""
        self.process = start(
            alice, f"echo $$ >terminal; exec script -qec '{way.shell}' /dev/null",
            stdin=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            self._begin()
        except BaseException:
            self.end()
            raise

    def _begin(self) -> None:
        """Wait for the shell, which may lose what was typed before it has the terminal: a user types it once more then.

        What is typed is shown as well: the quotes are only in that.
        """
        for _ in range(12):
            self.type(f"cd {self.alice.directory}; echo rea''dy\n")
            with suppress(AssertionError):
                self.read("ready", 15)
                break
        self.type("echo beg''un\n")
        self.read("begun", 15)

    def type(self, keys: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(keys)
        self.process.stdin.flush()

    def read(self, words: str, within: float = 120) -> str:
        """Wait for words; returns what came before them, since the last words that were read."""
        deadline = time.monotonic() + within
        output = self.process.stdout
        assert output is not None
        while words not in self.said:
            assert time.monotonic() < deadline, f"no {words!r} in {self.said!r}"
            if select.select([output], [], [], 1)[0]:
                more = os.read(output.fileno(), 1 << 16)
                assert more, f"no {words!r} in {self.said!r}"
                self.said += more.decode(errors="replace")
        before, _, self.said = self.said.partition(words)
        return before

    def kill(self) -> None:
        pid = (self.alice.directory / "terminal").read_text().strip()
        self.alice.cluster.on("login", ["kill", "-KILL", pid], user="root")

    def end(self) -> None:
        self.process.stdin.close()
        self.process.stdin = None
        self.kill()
        self.process.communicate(timeout=60)


@pytest.fixture
def of_its_own(way):
    if not way.terminal:
        pytest.skip("`qrsh` may outlive its terminal, and its job with it")


@pytest.fixture
def terminal(alice, way, nothing_is_left):
    opened = Terminal(alice, way)
    yield opened
    opened.end()


def check_ranks(said: str) -> None:
    """Ranks of both nodes with their numbers and cores, those of the first node first."""
    ranks = sorted(line for line in said.splitlines() if line.startswith("[rank ") and " of 4 on " in line)
    hosts = list(dict.fromkeys(line.partition(" on ")[2].partition(" ")[0] for line in ranks))
    assert len(hosts) == 2, said
    assert ranks == [
        f"[rank {2 * at + local}] rank {2 * at + local} of 4 on {host} cores {('0-3', '4-7')[local]}"
        for at, host in enumerate(hosts)
        for local in (0, 1)
    ], said


@pytest.mark.usefixtures("nothing_is_left")
def test_in_a_batch_script_of_ones_own(alice, way):
    """The script's variables and its trap stay, and the exit code is the training's; other commands find both runs."""
    waits = "if ((RANK == 3)); then until [[ -e own ]]; do sleep 0.1; done; exit 7; fi"
    fails = f'if ((RANK == 0)); then echo "own $OWN"; touch own; fi; {waits}'
    code, log = batch(
        alice, way,
        f"trap 'echo the trap' EXIT\nexport OWN=1\n{LINE} --all-ranks --name first -- bash show.sh || exit\n"
        f"{LINE} --name second -- bash -c '{fails}; {SLEEP}'\n",
    )  # fmt: skip
    assert code == 7, log
    check_ranks(log)
    assert "\nown 1\n" in log
    assert "rank 3 ended with exit code 7" in log
    assert "the trap\n" in log
    jobs = {one["name"]: one for one in json.loads(alice.dlrun("list", "--json").stdout)["jobs"]}
    states = {name: [run["state"] for run in jobs[name]["runs"]] for name in ("first", "second")}
    assert states == {"first": ["completed"], "second": ["failed"]}
    assert alice.why(jobs["second"]["directory"])["first"]["rank"] == 3


def test_ctrl_c_ends_a_run_and_another_follows(alice, way, terminal):
    """Without `--all-ranks` a run prints rank 0 only; benchmarks/run.py takes the time of the end."""
    terminal.type(f"{LINE} -- bash show.sh; echo co''de $?\n")
    said = terminal.read("code 0")
    assert "rank 0 of 4 on " in said
    assert "rank 1 of 4 on " not in said
    terminal.type(f"{LINE} -- bash again.sh; echo co''de $?\n")
    terminal.read("begun")
    await_true(lambda: sleeping(alice) == 4 * 42, 60, "the ranks of both nodes")
    terminal.type("\x03")
    if way.terminal:
        terminal.read("code 130")
        await_none(lambda: left(alice), 60, "the end of all processes")
        terminal.type(f"{LINE} --all-ranks -- bash show.sh; echo co''de $?\n")
        check_ranks(terminal.read("code 0").replace("\r", ""))
    else:
        await_none(lambda: left(alice), 60, "the end of all processes")


def test_a_terminal_that_is_gone_takes_the_run_with_it(alice, of_its_own, terminal):
    terminal.type(f"{LINE} -- bash stay.sh\n")
    await_true(lambda: sleeping(alice) == 8, 60, "the ranks of both nodes")
    terminal.kill()
    await_none(lambda: left(alice), 60, "the end of all processes")


@pytest.mark.usefixtures("nothing_is_left")
def test_runs_that_fail_at_once(alice, way):
    """Ranks that are ended before their placement was checked, because another has failed."""
    code, log = batch(alice, way, f"for i in {{1..4}}; do {LINE} -- false; done\n")
    assert code == 1, log
    assert log.count("ended with exit code 1") >= 4


@pytest.mark.usefixtures("nothing_is_left")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP], ids=lambda one: one.name)
def test_a_run_that_gets_a_signal_leaves_nothing(alice, way, number):
    started = f"bash -c 'echo $$ $(uname -n) >pid; exec {LINE} -- bash stay.sh'\n"
    (alice.directory / "pid").unlink(missing_ok=True)
    alice.write("own.sh", f"#!/bin/bash\n{way.head}{started}")
    script = start(alice, way.batch)
    await_true(lambda: sleeping(alice) == 8, 60, "the ranks of both nodes")
    pid, host = (alice.directory / "pid").read_text().split()
    alice.cluster.on(host, ["kill", f"-{int(number)}", pid], user="alice", check=True)
    await_none(lambda: left(alice), 60, "the end of all processes")
    out, errors = script.communicate(timeout=120)
    assert script.returncode == 128 + number, out + errors


@pytest.mark.usefixtures("nothing_is_left")
def test_plain_mpi(alice, way, cluster):
    """Open MPI by its own launcher; on Flux, where Debian's ends with a segmentation fault, MPICH by `flux run`."""
    library, options, before = "Open MPI", ["--launcher", "openmpi"], ""
    if cluster.spec.scheduler == "flux":
        library, options, before = "MPICH", [], f"export {MPICH_HERE}\n"
    code, log = batch(alice, way, f"{before}{shlex.join(example('mpi', *options))}\n")
    assert code == 0, log
    check_example(log, library)


@pytest.mark.torch
@pytest.mark.usefixtures("nothing_is_left")
def test_torch_trains(alice, way):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    train = PYTHON.parent.parent / "examples" / "digits" / "train.py"
    code, log = batch(alice, way, f"{LINE} --set placement.threads=1 -- {PYTHON}/python {train} --epochs 2\n")
    assert code == 0, log
    assert "with 4 ranks, replicas equal" in log


@pytest.mark.usefixtures("nothing_is_left")
def test_runs_in_a_row(alice, way):
    """Forty: a number that is seen in a shell of a day's work."""
    before = {path.name for path in alice.directory.iterdir()} | {"own.sh", "own.log"}
    code, log = batch(
        alice,
        way,
        f"for i in {{1..40}}; do {LINE} --name again -- sh -c 'echo of $RANK' || exit; done\n",
        600,
    )
    assert code == 0, log
    assert log.count("of 0\n") == 40, log
    assert {path.name for path in alice.directory.iterdir()} <= before


@pytest.mark.usefixtures("nothing_is_left")
def test_several_programs_divide_the_nodes(alice, way, cluster):
    if cluster.spec.scheduler == "gridengine":
        pytest.skip("Grid Engine cannot run several roles in one job yet")
    code, log = batch(alice, way, f"{PYTHON}/dlrun run {of_roles(alice, 'exit 3')}\n")
    assert code == 3, log
    hosts = dict(re.findall(r"(judge on|asked from) (n[0-9])", log))
    assert sorted(hosts.values()) == ["n1", "n2"], log


def test_into_a_job(alice, cluster):
    """A command, a shell and a port beside a rank on another node, until the job's end."""
    resources = {"nodes": 2, "ranks_per_node": 1, "walltime": "20m"}
    job = alice.submit({"command": ["bash", "-c", SERVE], "resources": resources})
    alice.running(job)
    await_true(lambda: "rank-1" in alice.dlrun("top", job, "--once").stdout, 60, "both ranks to be shown")
    other = alice.hosts(job)[1]
    show = ["sh", "-c", 'echo "$RANK of $WORLD_SIZE on $(uname -n) in $PWD"']
    said = alice.dlrun("shell", "--rank", "1", job, "--", *show).stdout
    assert said == f"1 of 2 on {other} in {alice.directory}/1\n"
    alice.dlrun("shell", job, "sh", "-c", "exit 9", code=9)
    tunnel = start(alice, f"exec dlrun tunnel --json --rank 1 {job} 18800")
    line = tunnel.stdout.readline()
    assert line, tunnel.communicate(timeout=30)[1]
    assert get(cluster, "login", json.loads(line)["tunnel"]["address"]) == f"{other}\n"
    alice.dlrun("cancel", job)
    _, notices = tunnel.communicate(timeout=180)
    assert (tunnel.returncode, "has ended: cancelled" in notices) == (0, True)
    alice.left_nothing(job, cluster.spec.nodes)

    for host in cluster.spec.nodes:  # a job that is killed leaves its lock, which the next one takes over
        cluster.on(host, "rm -rf /tmp/dlrun-ports-*", user="root")


@pytest.mark.usefixtures("nothing_is_left")
def test_into_a_run(alice, way, cluster):
    """From its first node, where `dlrun run` is, to each of its nodes; elsewhere dlrun says where to ask."""
    run = alice.directory / "served"
    script = alice.write("serve.sh", f"mkdir -p served-by; cd served-by; {SERVE}")
    line = f"{PYTHON}/dlrun run --ranks-per-node 1 --job-dir {run} -- bash {script}"
    alice.write("own.sh", f"#!/bin/bash\n{way.head}{line}\n")
    process = start(alice, way.batch)
    served = [alice.directory / f"served-by/{rank}/index.html" for rank in (0, 1)]
    await_true(lambda: all(path.exists() and path.read_text() for path in served), 60, "both ranks")
    hosts = (run / "hosts").read_text().split()
    site = {"DLRUN_SITE": str(alice.directory / "site.yaml")}

    def dlrun(words: str):
        line = f"PATH={PYTHON}:$PATH; dlrun {words}"
        return cluster.on(hosts[0], line, user="alice", env=site, cwd=str(alice.directory))

    for rank, host in enumerate(hosts):
        said = dlrun(f"shell --rank {rank} {run} -- sh -c 'echo $RANK on $(uname -n)'")
        assert said.stdout == f"{rank} on {host}\n", said.stderr
        tunnel = start(alice, f"exec dlrun tunnel --json --rank {rank} {run} 18800", host=hosts[0])
        line = tunnel.stdout.readline()
        assert line, tunnel.communicate(timeout=30)[1]
        assert get(cluster, hosts[0], json.loads(line)["tunnel"]["address"]) == f"{host}\n"
        os.killpg(tunnel.pid, signal.SIGTERM)
        tunnel.communicate(timeout=60)
    refused = alice.dlrun("shell", str(run), "true", code=1)
    assert f"run `dlrun shell served` on `{hosts[0]}`" in refused.stderr
    assert dlrun(f"cancel {run}").returncode == 0
    process.communicate(timeout=120)


def get(cluster: Cluster, host: str, address: str) -> str:
    words = ["curl", "-s", "--max-time", "20", f"http://{address}/index.html"]
    return cluster.on(host, words, check=True).stdout
