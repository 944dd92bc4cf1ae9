"""What is drawn on a terminal while a job of a real Slurm waits, runs and ends: here, and over ssh. And what its runs used."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import threading
from contextlib import suppress

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, why_not
from tests.cluster.errors import ClusterError
from tests.cluster.hosts import await_true
from tests.cluster.jobs import PYTHON, User, bash
from tests.cluster.laptop import Laptop

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(why_not()), reason=why_not())]

SITE = {"name": "far", "scheduler": {"type": "slurm"}, "launcher": {"name": "srun"}}
WHOLE = {"ranks_per_node": 1, "walltime": "3m", "exclusive": True}
WAITS = re.compile(r"job \d+: in the queue for (?:(\d+)m)?(?:(\d+)s)?, pending: (.*)")
STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture(scope="module")
def cluster():
    spec = ClusterSpec(node_types=(NodeType(count=1),), outside=("laptop",), sshd=True)
    with Cluster(spec, name=f"terminal-{os.getpid()}") as running:
        yield running


@pytest.fixture(scope="module")
def alice(cluster):
    return User(cluster, SITE)


@pytest.fixture(scope="module")
def laptop(cluster):
    return Laptop(cluster, {**SITE, "recognise": {"cluster_name": "testcluster"}})


@pytest.fixture
def busy(alice, cluster):
    """The job that has the only node."""
    job = alice.submit({"command": bash("sleep 600"), "resources": WHOLE})
    alice.running(job)
    yield job
    cluster.on("login", "scancel --user=alice", user="root", check=True)
    await_true(
        lambda: not cluster.on("login", "squeue --noheader", user="root").stdout, 60, "all jobs to end"
    )


class Terminal:
    """A program on a terminal of 150 columns, and everything that was drawn there; a new line is what each redraw begins."""

    def __init__(self, start, *words):
        line = f"exec {shlex.join(words)}"
        sized = {"COLUMNS": "150", "TERM": "xterm-256color"}
        self.process = start(["/usr/bin/script", "-qec", line, "/dev/null"], sized)
        self.drawn = ""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        while letters := self.process.stdout.read(1):
            self.drawn += letters

    def shows(self, text):
        with suppress(ClusterError):
            await_true(lambda: text in self.drawn, 90, text)
        assert text in self.drawn, self.drawn[-3000:]

    def lines(self):
        """Each state of each line, without its style."""
        return [STYLE.sub("", line) for line in self.drawn.splitlines()]

    def ended(self):
        self.process.wait(120)
        self._reader.join()
        return self.process.returncode

    def close(self):
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdout, self.process.stderr):
            pipe.close()


@pytest.fixture
def here(alice, cluster):
    """Run dlrun on a terminal of the login host."""
    made = []

    def start(words, env):
        path = cluster.on("login", "echo $PATH", check=True).stdout.strip()
        env = {**env, "DLRUN_SITE": str(alice.directory / "site.yaml"), "PATH": f"{PYTHON}:{path}"}
        return cluster.popen("login", words, user=alice.name, env=env, cwd=str(alice.directory))

    def run(*words):
        made.append(Terminal(start, "dlrun", *words))
        return made[-1]

    yield run
    for one in made:
        one.close()


@pytest.fixture
def there(laptop):
    """Run dlrun on a terminal of the laptop."""
    made = []

    def run(*words):
        made.append(Terminal(lambda words, env: laptop.start(*words, env=env), "dlrun", *words))
        return made[-1]

    yield run
    for one in made:
        one.close()


def seconds_waited(lines):
    return [
        int(match[1] or 0) * 60 + int(match[2] or 0)
        for line in lines
        if (match := WAITS.search(line)) is not None
    ]


def test_a_job_that_waits_has_its_reason_its_expected_start_and_its_time_in_the_queue(alice, here, busy):
    short = "echo begun; until [[ -e go ]]; do sleep 0.1; done; echo last"
    alice.write("w.yaml", {"name": "w", "framework": "torch", "command": bash(short), "resources": WHOLE})
    terminal = here("submit", "w.yaml", "--wait")
    terminal.shows("pending: waits for free nodes, expected to start ")
    alice.dlrun("cancel", busy)
    terminal.shows("begun\n")
    terminal.shows("running on n1 for ")
    alice.write("go", "")
    assert terminal.ended() == 0
    lines = terminal.lines()
    waited = seconds_waited(lines)
    assert waited == sorted(waited), "another reason or another expected start does not begin a new wait"
    begun = lines.index("begun")
    first = next(i for i, line in enumerate(lines) if "running on n1" in line)
    assert not [line for line in lines[max(begun, first) :] if WAITS.search(line)]
    assert any(re.search(r"job \d+ used \S+ node-hours, of at most 0.05 node-hours", line) for line in lines)


def test_over_ssh_the_login_node_is_away_and_comes_back_and_the_results_come_with_a_bar(
    alice, cluster, laptop, there, busy
):
    spec = laptop.spec("echo begun; head -c 40000000 /dev/urandom > big", resources=WHOLE)
    terminal = there("submit", spec, "--host", "login", "--wait")
    terminal.shows("pending: waits for free nodes")
    cluster.cut("laptop")
    try:
        terminal.shows("no answer from slurm on `login` since ")
    finally:
        cluster.join("laptop")
    alice.dlrun("cancel", busy)
    assert terminal.ended() == 0
    lines = terminal.lines()
    assert "begun" in lines
    waited = seconds_waited(lines)
    assert waited == sorted(waited), "nor does the time in which it was not known"
    assert any(re.search(r"job \d+ used \S+ node-hours", line) for line in lines), "it is followed to its end"
    fetched = there("fetch", f"far{laptop.serial}", "big", "--to", "results")
    assert fetched.ended() == 0
    lines = fetched.lines()
    assert [line for line in lines if re.search(r"━.* [0-9.]+/40.0 MB", line)]
    assert laptop.run("stat -c %s work/results/big") == "40000000\n"


def test_what_requeued_runs_used_is_counted_together(alice):
    job = alice.submit(
        {
            "run": "sleep 3; exit 3\n",
            "resources": WHOLE,
            "on_failure": {"requeue": 2, "user_error": "requeue"},
        }
    )
    assert alice.ended(job, within=240)[-1]["state"] == "failed"
    assert "restarts" in (alice.job_dir(job) / "state.json").read_text()
    (found,) = json.loads(alice.dlrun("status", job, "--json").stdout)["jobs"]
    assert found["asked"]["node_hours"] == pytest.approx(3 * 3 / 60)
    assert 9 <= found["used"]["node_hours"] * 3600 < 180, "three runs of three seconds each"
