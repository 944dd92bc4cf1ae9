"""Local jobs from their records alone: what a job is when its supervisor lives, and when it is gone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from dlrun.jobs.clusters import local
from dlrun.jobs.records.jobs import Job
from tests import processes


@pytest.fixture
def living():
    """The id of a process that lives as long as the test."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        yield f"{process.pid}.{fields[19]}"
        process.kill()


def await_true(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def job(directory, job_id, array=None) -> Job:
    return Job(
        directory=directory, name="a", site="here", scheduler="local", job_id=job_id, submitted=1.0, array=array
    )  # fmt: skip


def write(run, **record) -> None:
    run.mkdir(parents=True, exist_ok=True)
    (run / "state.json").write_text(json.dumps({"version": 1, "host": "n1", "started": 10, **record}))


@pytest.mark.parametrize(
    ("record", "alive", "dead"),
    [
        (None, "pending", "lost"),
        ({"state": "running"}, "running", "lost"),
        ({"state": "ended", "exit_code": 0}, "ending", "completed"),
        ({"state": "ended", "exit_code": 3}, "ending", "failed"),
        ({"state": "ended", "exit_code": 143, "reason": "cancelled"}, "ending", "cancelled"),
        ({"state": "ended", "exit_code": 143, "reason": "timed out"}, "ending", "timed out"),
        ({"state": "ended", "exit_code": 137, "reason": "killed"}, "ending", "failed"),
    ],
)
def test_states(tmp_path, living, record, alive, dead):
    if record is not None:
        write(tmp_path, **record)
    assert [s.state for s in local.status(job(tmp_path, living))] == [alive]
    assert [s.state for s in local.status(job(tmp_path, "1.0"))] == [dead]


def test_points_of_a_sweep_end_one_after_the_other(tmp_path, living):
    write(tmp_path / "points" / "0", state="ended", exit_code=0)
    write(tmp_path / "points" / "1", state="running")
    found = local.status(job(tmp_path, living, array=3))
    assert [(s.task, s.state) for s in found] == [(0, "completed"), (1, "running"), (2, "pending")]
    write(tmp_path / "points" / "1", state="ended", exit_code=1)
    write(tmp_path / "points" / "2", state="ended", exit_code=0)
    assert [s.state for s in local.status(job(tmp_path, living, array=3))] == [
        "completed",
        "failed",
        "ending",
    ]


def test_a_process_number_that_was_given_away_again_is_another_process(living):
    pid = living.partition(".")[0]
    assert local.alive(living)
    assert not local.alive(f"{pid}.1")
    assert not local.alive(f"{pid}.")
    assert not local.alive("99999999.")
    assert not local.alive("x.1")
    assert not local.cancel(job(Path(), f"{pid}.1"))
    os.kill(int(pid), 0)


def test_a_supervisor_that_is_just_starting_has_no_arguments_yet(tmp_path, living, monkeypatch):
    """For a moment of exec the kernel shows none: 51 of 4,000 new processes were seen so on two busy cores."""
    answers = [[], [], ["python", "-S", "-E", "/x/supervise.py", str(tmp_path)]]
    monkeypatch.setattr(local, "command_line", lambda _: answers.pop(0))
    monkeypatch.setattr(Path, "samefile", lambda *_: True)
    assert local.supervises(living, tmp_path)


def test_an_unsubmitted_job_has_no_state(tmp_path):
    assert local.status(job(tmp_path, None)) == []


@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")  # it outlives dlrun
def test_a_job_that_is_cancelled_the_moment_it_was_submitted_is_cancelled(tmp_path):
    """Its supervisor, a Python that has hardly begun, is not just ended by the signal."""
    (tmp_path / "job.sh").write_text("exec sleep 600\n")
    submitted = job(
        tmp_path, local.start(tmp_path, walltime=None, points=None, environment={"PATH": os.environ["PATH"]})
    )
    assert local.cancel(submitted, timeout=240.0)
    assert [s.state for s in local.status(submitted)] == ["cancelled"]
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) & {signal.SIGTERM, signal.SIGINT} == set()


@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")  # it outlives dlrun
def test_a_supervisor_that_does_not_end_is_killed_with_every_process_below_it(tmp_path):
    (tmp_path / "job.sh").write_text("sleep 600 &\necho $! >below.new && mv below.new below\nwait\n")
    submitted = job(
        tmp_path, local.start(tmp_path, walltime=None, points=None, environment={"PATH": os.environ["PATH"]})
    )
    await_true((tmp_path / "below").exists)
    below = int((tmp_path / "below").read_text())
    os.kill(int(submitted.job_id.partition(".")[0]), signal.SIGSTOP)
    assert local.cancel(submitted, timeout=0.2)
    assert not local.alive(submitted.job_id)
    await_true(lambda: processes.is_over(below))


def test_a_job_that_has_ended_before_its_id_is_read_has_the_id_that_it_wrote(tmp_path, monkeypatch):
    """On a busy machine a short job ends first; `submit --wait` would wait for another id for ever."""
    (tmp_path / "job.sh").write_text("exit 0\n")
    began = []

    def ended_at_once(*words, **more):
        process = subprocess.Popen(*words, **more)
        began.append(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19])
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        return process

    with monkeypatch.context() as patched:
        patched.setattr(local, "subprocess", SimpleNamespace(Popen=ended_at_once, DEVNULL=subprocess.DEVNULL))
        job_id = local.start(tmp_path, walltime=60, points=None, environment=dict(os.environ))
    pid, _, started = job_id.partition(".")
    assert (pid.isdigit(), started) == (True, began[0])
    assert not local.alive(job_id)
