"""How jobs on this machine end and go on: told in time, started again by policy, stopped where nothing is gained."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Dlrun

STEPS = Path(__file__).parent.parent / "steps.py"


def log(job: Path, name: str = "rank-0") -> list[list[str]]:
    return [line.split() for line in (job / "logs" / f"{name}.log").read_text().splitlines()]


def ended(dlrun: Dlrun, job: Path) -> tuple[str, int]:
    (found,) = json.loads(dlrun("status", job, "--json").stdout)["jobs"]
    (run,) = found["runs"]
    return run["state"], run["exit_code"]


def train(dlrun: Dlrun, steps: int, *more: str, ranks: int = 1) -> Path:
    """Submit the small training, which is told to save after half a minute and has a minute for that; the job's directory.

    The first run does half of the steps at most before.
    """
    shutil.copy(STEPS, dlrun.place)
    spec = (
        f"command: [python3, steps.py, '{steps}', '0.2', saved, '{steps // 2}']\n"
        f"resources: {{ranks_per_node: {ranks}, walltime: 90s}}\n"
        "checkpoint: {before_end: 60s, path: saved}\n"
    )
    return dlrun.submit(spec, "--wait", *more, code=None)


@pytest.mark.slow
def test_a_training_goes_on_where_it_was_told_to_stop(dlrun):
    job = train(dlrun, 50, "--set", "on_failure.requeue=5")
    words = log(job)
    assert ended(dlrun, job) == ("completed", 0)
    assert [int(w[1]) for w in words if w[0] == "step"] == list(range(1, 51))
    starts = [w for w in words if w[0] == "run"]
    assert [int(w[1]) for w in starts] == list(range(len(starts)))
    assert len(starts) > 1
    assert len({w[2] for w in starts}) == len(starts)
    assert {w[4] for w in starts} == {job.name}
    told = [w[1] for w in words if w[0] == "told"]
    assert told[-1] == "0"
    assert set(told[:-2]) <= {"1"}  # the last but one may have been done just when its signal came
    assert told[0] == "1"
    assert {tuple(w[2:]) for w in words if w[0] == "told"} == {("loader", "alive")}
    assert not dlrun.alive()


@pytest.mark.slow
def test_the_number_of_runs_has_an_end(dlrun):
    job = train(dlrun, 1000, "--set", "on_failure.requeue=1")
    assert ended(dlrun, job) == ("timed out", 124)
    assert [w[1] for w in log(job) if w[0] == "run"] == ["0", "1"]
    assert "this was run 2 of 2: no other follows" in (job / "logs" / "job.log").read_text()


@pytest.mark.slow
def test_without_progress_nothing_follows(dlrun):
    job = train(dlrun, 1000, "--set", "on_failure.requeue=5", "--set", "checkpoint.path=elsewhere")
    assert ended(dlrun, job) == ("timed out", 124)
    assert [w[1] for w in log(job) if w[0] == "run"] == ["0"]
    assert "there is no newer checkpoint" in (job / "logs" / "job.log").read_text()


@pytest.mark.slow
def test_rank_0_alone_is_told_where_that_is_asked_for(dlrun):
    job = train(dlrun, 50, "--set", "checkpoint.to=first", ranks=2)
    assert [[w[1] for w in log(job, f"rank-{rank}") if w[0] == "told"] for rank in (0, 1)] == [["1"], ["0"]]


@pytest.mark.slow
def test_a_shell_can_trap_the_signal(dlrun):
    script = 'trap "echo saved; exit 0" USR1; while sleep 0.1; do :; done'
    job = dlrun.submit(
        f"command: [bash, -c, {json.dumps(script)}]\nresources: {{ranks_per_node: 1, walltime: 90s}}\n"
        "checkpoint: {before_end: 60s}\n",
        "--wait",
        code=124,
    )
    assert log(job) == [["saved"]]
    assert ended(dlrun, job) == ("timed out", 124), "it was told to save, and is not done"


@pytest.mark.slow
def test_the_last_words_of_a_program_are_few_however_long_its_lines(dlrun):
    """Else the job's script would need as much memory, and its log as much room, as what the program said."""
    line = "printf %04194304d 0; exit 3"
    job = dlrun.submit(f"command: [bash, -c, '{line}']\nresources: {{ranks_per_node: 1}}\n", "--wait", code=3)
    assert (job / "logs" / "rank-0.log").stat().st_size == 4 << 20
    assert "  | 000" in (job / "logs" / "job.log").read_text()
    assert (job / "logs" / "job.log").stat().st_size < 10000


@pytest.mark.parametrize(("policy", "runs"), [("user_error: requeue", 2), ("user_error: stop", 1), ("", 1)])
def test_a_failing_program_is_started_again_only_if_the_policy_says_so(dlrun, policy, runs):
    job = dlrun.submit(
        "command: [bash, -c, 'echo failing; exit 3']\nresources: {ranks_per_node: 1}\n"
        f"on_failure: {{requeue: 1{', ' if policy else ''}{policy}}}\n",
        "--wait",
        code=3,
    )
    assert ended(dlrun, job) == ("failed", 3)
    assert log(job) == [["failing"], ["dlrun:", "run", "2"], ["failing"]][: 2 * runs - 1]
    assert [words for words in log(job, "job") if words[0] == "|"] == [["|", "failing"]] * runs, (
        "of each run, its own"
    )


def test_a_cancelled_job_does_not_come_back(dlrun):
    job = dlrun.submit(
        "command: [sleep, '600']\nresources: {ranks_per_node: 1}\n"
        "on_failure: {requeue: 3, user_error: requeue}\n"
    )
    dlrun("cancel", job)
    assert ended(dlrun, job)[0] == "cancelled"
    assert not dlrun.alive()


KEEPS = """command: [bash, -c, 'cd "$DLRUN_RUN_DIR"; mkdir -p dump abort; for d in dump abort; do echo 0 >>$d/mine; done; exit 3']
resources: {ranks_per_node: 1}
on_failure: {requeue: 1, user_error: requeue}
hang: 10m
"""


@pytest.mark.slow
def test_what_a_program_wrote_beside_the_records_of_its_job_is_there_after_a_restart(dlrun):
    """`{{ run_dir }}` is where checkpoints go: only what has dlrun's mark is removed from it."""
    job = dlrun.submit(KEEPS, "--wait", code=3)
    assert (job / "dump" / "mine").read_text() == (job / "abort" / "mine").read_text() == "0\n0\n"


@pytest.mark.slow
def test_a_name_that_the_job_needs_is_not_taken_from_what_has_it(dlrun):
    job = dlrun.submit("command: [/bin/true]\nresources: {ranks_per_node: 1}\nhang: 10m\n", "--wait")
    shutil.rmtree(job / "stacks")
    (job / "stacks").mkdir()
    (job / "stacks" / "model.pt").touch()
    again = subprocess.run(
        ["bash", "job.sh"], cwd=job, capture_output=True, text=True, timeout=60, check=False
    )
    assert again.returncode == 1
    assert "needs the name" in again.stdout + again.stderr + (job / "logs" / "job.log").read_text()
    assert (job / "stacks" / "model.pt").exists()
