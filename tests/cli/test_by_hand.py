"""A job directory that `render -o` wrote, submitted by hand: it runs, and dlrun's commands know it."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.meeting import ALL_HERE

SPEC = "command: [bash, -c, 'echo rank $DLRUN_RANK; {here}; exit {code}']\nresources: {{ranks_per_node: 2}}\n"


@pytest.mark.slow
@pytest.mark.parametrize("code", [0, 3])
def test_commands_know_a_job_that_was_submitted_by_hand(dlrun, code):
    dlrun("render", dlrun.spec(SPEC.format(here=ALL_HERE, code=code)), "-o", "by-hand")
    job = dlrun.place / "by-hand"
    with (job / "logs" / "job.log").open("w") as log:  # as the scheduler writes it
        done = subprocess.run(
            ["bash", "job.sh"],
            cwd=job,
            env=dlrun.environment(),
            stdout=log,
            stderr=log,
            timeout=120,
            check=False,
        )
    assert done.returncode == code, (job / "logs" / "job.log").read_text()
    (shown,) = json.loads(dlrun("status", job, "--json").stdout)["jobs"]
    (run,) = shown["runs"]
    assert (run["state"], run["exit_code"]) == ("failed" if code else "completed", code)
    assert shown["job_id"] == json.loads((job / "state.json").read_text())["job_id"]
    assert "rank 1" in dlrun("logs", job, "--rank", "1").stdout
    if code:
        (answer,) = json.loads(dlrun("why", job, "--json").stdout)["why"]
        assert answer["exit_code"] == code


def test_a_job_that_prints_nothing_is_run_by_hand_again(dlrun):
    """Its log stays as the first run left it."""
    dlrun("render", dlrun.spec("command: ['true']\nresources: {ranks_per_node: 1}\n"), "-o", "by-hand")
    for _ in range(2):
        done = subprocess.run(
            ["bash", "job.sh"], cwd=dlrun.place / "by-hand", env=dlrun.environment(), timeout=120, check=False,
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout


def test_a_sweep_by_hand(dlrun):
    dlrun("render", dlrun.spec("command: [echo, '{{ lr }}']\nsweep: {lr: [0.1, 0.2]}\n"), "-o", "by-hand")
    job = dlrun.place / "by-hand"
    for index in ("0", "1"):
        subprocess.run(
            ["bash", "job.sh"], cwd=job, env=dlrun.environment(DLRUN_LOCAL_INDEX=index), timeout=120, check=True,
            capture_output=True,
        )  # fmt: skip
    assert "0.2" in (job / "points" / "1" / "logs" / "rank-0.log").read_text()
    assert "completed" in dlrun("status", job).stdout
