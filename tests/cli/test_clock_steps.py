"""A node's clock is set while a job runs: no duration changes, and the step is reported once."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest

from tests import programs
from tests.cli.conftest import Dlrun, wait_for
from tests.examples import cases

STEPS = (900, -900, 3600, -3600, 86400, -86400)
SLOW = 300
"""Seconds by which a slow machine may be late: much more than it will be, and far below the smallest step."""
SOURCE = Path(__file__).parents[1] / "clock.c"
SAVER = """\
import os, signal, sys, time
def save(*_):
    print("saving", flush=True)
    sys.exit(0)
signal.signal(signal.SIGUSR1, save)
open("begun", "w").close()
time.sleep(600)
"""


@pytest.fixture(scope="session")
def shim(tmp_path_factory) -> Path:
    """A library whose wall clock is off by the seconds in the file TEST_CLOCK."""
    compiler = programs.need("cc")
    made = tmp_path_factory.mktemp("clock") / "clock.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", made, SOURCE], check=True)
    return made


class Clock:
    """The wall clock of a job, and of commands with these variables."""

    def __init__(self, dlrun: Dlrun, shim: Path) -> None:
        self.dlrun, self._file = dlrun, dlrun.place / "clock"
        self._file.write_text("0")
        self.variables = {"LD_PRELOAD": str(shim), "TEST_CLOCK": str(self._file)}

    def set(self, seconds: int) -> None:
        self._file.with_suffix(".new").write_text(str(seconds))
        self._file.with_suffix(".new").rename(self._file)

    def submit(self, spec: str, *arguments: str) -> Path:
        return self.dlrun.submit(spec, *arguments, env=self.variables)

    def json(self, *arguments: str | Path) -> dict:
        """What a command prints whose clock is set, too."""
        return json.loads(
            self.dlrun(*arguments, "--json", env=self.variables, stdin=subprocess.DEVNULL).stdout
        )


@pytest.fixture
def clock(dlrun, shim) -> Clock:
    return Clock(dlrun, shim)


def begun(dlrun: Dlrun) -> float:
    """Wait until the program runs; the time then."""
    wait_for((dlrun.place / "begun").exists)
    return time.monotonic()


def recorded(job: Path) -> dict:
    return json.loads((job / "state.json").read_text())


def ended(job: Path) -> bool:
    return (job / "state.json").exists() and recorded(job)["state"] == "ended"


def expect_duration(clock: Clock, job: Path, began: float, state: str) -> None:
    """Records and commands agree with the clock of this test, which has not been set."""
    lasted = time.monotonic() - began
    record = recorded(job)
    assert record["ended"] - record["started"] == pytest.approx(lasted, abs=SLOW)
    (run,) = clock.json("usage", job)["usage"]
    assert run["elapsed"] == pytest.approx(lasted, abs=SLOW)
    assert 0 <= run["phases"]["training"] <= lasted + SLOW
    (listed,) = clock.json("status", job)["jobs"]
    assert [one["state"] for one in listed["runs"]] == [state]


def told(job: Path) -> int:
    return (job / "logs" / "job.log").read_text().count(" was set ")


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_the_walltime_is_neither_cut_short_nor_extended(clock, step):
    submitted = time.monotonic()
    job = clock.submit("command: [bash, -c, 'touch begun; sleep 6000']\n", "--set", "resources.walltime=15s")
    began = begun(clock.dlrun)
    clock.set(step)
    wait_for(lambda: ended(job), SLOW)
    assert time.monotonic() - submitted >= 15
    expect_duration(clock, job, began, "timed out")
    assert told(job) == 1


@pytest.mark.slow
@pytest.mark.parametrize("step", cases(STEPS, quick=1))
def test_the_signal_to_save_comes_before_the_end_and_the_job_is_requeued(clock, step):
    (clock.dlrun.place / "saver.py").write_text(SAVER)
    job = clock.submit(
        "command: [python3, saver.py]\ncheckpoint: {signal: USR1, before_end: 60s}\non_failure: {requeue: 1}\n",
        "--set", "resources.walltime=90s",
    )  # fmt: skip
    began = begun(clock.dlrun)
    clock.set(step)
    wait_for(lambda: ended(job), SLOW)
    assert (job / "logs" / "rank-0.log").read_text().count("saving") == 2, "in both runs"
    record = recorded(job)
    assert record["restarts"] == 1
    assert 5 <= record["earlier"] <= SLOW
    assert record["ended"] - record["started"] <= time.monotonic() - began


@pytest.mark.parametrize(
    "step", [pytest.param(s, marks=() if s == 86400 else pytest.mark.slow) for s in STEPS]
)
def test_a_job_whose_clock_is_set_lasts_as_long_as_it_does(clock, step):
    job = clock.submit("command: [bash, -c, 'touch begun; until [[ -e go ]]; do sleep 0.1; done; exit 3']\n")
    began = begun(clock.dlrun)
    clock.set(step)
    wait_for(lambda: told(job) == 1)
    (run,) = clock.json("usage", job)["usage"]
    (text,) = clock.dlrun(
        "top", job, "--once", "--json", env=clock.variables, stdin=subprocess.DEVNULL
    ).stdout.splitlines()
    live = json.loads(text)["top"]
    for found in (run["elapsed"], live["running"]):
        assert found == pytest.approx(time.monotonic() - began, abs=SLOW)
    assert all(0 <= node["age"] < SLOW for node in live["nodes"])
    clock.set(-step)  # and just before the end
    (clock.dlrun.place / "go").touch()
    wait_for(lambda: ended(job))
    expect_duration(clock, job, began, "failed")
    assert recorded(job)["exit_code"] == 3


WEEK = 7 * 86400


@pytest.mark.slow
def test_a_job_that_is_submitted_again_a_week_later_runs_the_code_of_then(clock):
    """Meanwhile the code was edited and other jobs of it were cleaned away, with the versions that no other job uses."""
    program = clock.dlrun.place / "train.py"
    jobs = []
    for version in (1, 2):
        program.write_text(f"print('version', {version})\n")
        jobs.append(clock.submit("command: [python3, train.py]\ncode: snapshot\n", "--wait"))
    program.write_text("print('version', 3)\n")
    clock.set(WEEK)
    first, second = jobs
    trees = [Path((job / "code" / "snapshot").read_text().splitlines()[0]) for job in jobs]
    clock.json("clean", "--older-than", "8d", "--yes")
    assert all(tree.is_dir() for tree in trees), "a week is less than eight days"
    clock.json("clean", second, "--yes")
    assert [tree.is_dir() for tree in trees] == [True, False]
    again = Path(clock.json("resubmit", first)["job"]["directory"])
    wait_for(lambda: ended(again))
    assert "version 1\n" in (again / "logs" / "rank-0.log").read_text()
    assert int((again / "code-starts").read_text().split()[2]) > time.time() + WEEK - 3600
    clock.json("clean", first, "--yes")  # by name: the kernel's clock, which dates files, was not set
    assert not first.exists()
    assert trees[0].is_dir(), "the job of this day uses it"


@pytest.mark.parametrize("step", [pytest.param(s, marks=pytest.mark.slow) for s in STEPS])
def test_a_node_whose_clock_is_off_from_the_start(clock, step):
    clock.set(step)
    job = clock.submit("command: [bash, -c, 'touch begun; sleep 2']\n")
    began = begun(clock.dlrun)
    wait_for(lambda: ended(job))
    expect_duration(clock, job, began, "completed")
    assert told(job) == 0, "it was not set while the job ran"
