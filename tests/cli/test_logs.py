"""`dlrun logs` of a real job: one log of all ranks, and the one that failed first."""

from __future__ import annotations

import pytest

SCRIPT = (
    "command: [bash, -c, 'for s in 1 2 3; do echo 10:00:0$((2 * s + RANK)) rank $RANK; done; "
    "if ((RANK == 1)); then until [[ -e said ]]; do sleep 0.1; done; echo my fault; exit 7; "
    "else touch said; sleep 600; fi']\n"
    "resources: {ranks_per_node: 2, walltime: 5m}\n"
)


@pytest.mark.slow
def test_ranks_are_merged_by_time_and_the_first_failure_is_found(dlrun):
    job = dlrun.submit(SCRIPT, "--wait", code=7)
    shown = dlrun("logs", job, "--merge", "--rank", "0-1").stdout.splitlines()
    assert [line for line in shown if "10:00" in line] == [
        "[rank 0] 10:00:02 rank 0",
        "[rank 1] 10:00:03 rank 1",
        "[rank 0] 10:00:04 rank 0",
        "[rank 1] 10:00:05 rank 1",
        "[rank 0] 10:00:06 rank 0",
        "[rank 1] 10:00:07 rank 1",
    ]
    merged = dlrun("logs", job, "--merge")
    assert "logs without timestamps are shown first: job" in merged.stderr
    assert dlrun("logs", job, "--merge", "--tail", "2", "--rank", "0").stdout == "".join(
        f"[rank 0] 10:00:0{second} rank 0\n" for second in (4, 6)
    )
    last = dlrun("logs", job, "-n", "1", "--rank", "0-1").stdout
    assert last == "[rank 0] 10:00:06 rank 0\n[rank 1] my fault\n"
    assert dlrun("logs", job, "--first-failure", "-n", "1").stdout == "my fault\n"
    failed = dlrun("logs", job, "--first-failure")
    assert failed.stdout.splitlines()[-1] == "my fault"
    assert "rank 1 on" in failed.stderr
    assert "exit code 7" in failed.stderr
    assert dlrun("logs", job, "--first-failure", "--paths").stdout.endswith("rank-1.log\n")
    assert dlrun("logs", job, "--first-failure", "-f", code=2).stdout == ""


@pytest.mark.slow
def test_ranks_of_a_node_share_a_log_and_are_told_apart(dlrun):
    """The last words of a rank are long, and those of the other have no newline."""
    program = SCRIPT.replace("echo my fault", "seq 3000; printf my-fault").replace(
        "touch said", "printf half; touch said"
    )
    job = dlrun.submit(f"logs: node\n{program}", "--wait", code=7)
    assert sorted(path.name for path in (job / "logs").iterdir()) == ["job.log", "rank-0-1.log"]
    numbers = [str(number) for number in range(1, 3001)]
    assert dlrun("logs", job, "--rank", "0").stdout.splitlines() == [
        "[rank 0] 10:00:02 rank 0", "[rank 0] 10:00:04 rank 0", "[rank 0] 10:00:06 rank 0", "[rank 0] half",
    ]  # fmt: skip
    first = dlrun("logs", job).stdout
    assert "10:00:02 rank 0\n" in first
    assert "10:00:03 rank 1\n" not in first
    merged = dlrun("logs", job, "--merge", "--rank", "0-1").stdout.splitlines()
    assert [line for line in merged if "10:00" in line][:2] == [
        "[rank 0] 10:00:02 rank 0",
        "[rank 1] 10:00:03 rank 1",
    ]
    failed = dlrun("logs", job, "--first-failure").stdout.splitlines()
    assert failed[-3001:] == [*numbers, "my-fault"]
    assert dlrun("logs", job, "--first-failure", "--paths").stdout.endswith("logs/rank-0-1.log\n")
    assert dlrun("logs", job, "--rank", "0-1", "--paths").stdout.count("\n") == 1
    report = (job / "logs" / "job.log").read_text()
    assert "the end of logs/rank-0-1.log:\n  | 2987\n" in report
    assert report.count("  | ") == 15
    assert "  | my-fault\n" in report
    assert not dlrun.alive()


@pytest.mark.slow
def test_what_programs_print_is_found_in_the_log_of_their_node(dlrun):
    """Metrics are rank 0's, and the cause of the failure that of the rank that failed."""
    program = (
        "command: [bash, -c, 'echo accuracy 0.$((5 + RANK)); if ((RANK == 1)); then until [[ -e said ]]; do sleep 0.1; done; "
        'echo "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"; exit 1; else touch said; sleep 600; fi\']\n'
    )
    more = "logs: node\nmetrics: {accuracy: 'accuracy ([0-9.]+)'}\nresources: {ranks_per_node: 3, walltime: 5m}\n"
    job = dlrun.submit(program + more, "--wait", code=1)
    assert " 0.5 " in f"{dlrun('results', job).stdout} ".replace("\n", " ")
    why = dlrun("why", job).stdout
    assert "CUDA out of memory" in why
    assert "log:   logs/rank-0-2.log: RuntimeError: CUDA" in why


@pytest.mark.slow
def test_a_job_without_a_failure_has_none(dlrun):
    job = dlrun.submit("command: ['true']\n", "--wait")
    assert "failed by itself" in dlrun("logs", job, "--first-failure", code=1).stderr


@pytest.mark.slow
def test_points_of_a_sweep_have_logs_of_their_own(dlrun):
    job = dlrun.submit("command: [bash, -c, 'echo value {{ x }}']\nsweep: {x: [a, b, c]}\n", "--wait")
    lines = [line for line in dlrun("logs", f"{job}:0,2").stdout.splitlines() if "value" in line]
    assert lines == ["[0/rank 0] value a", "[2/rank 0] value c"]
    assert "value b" in dlrun("logs", f"{job}:1", "-f").stdout
    assert "are shown first: 0/job, 0/rank 0, 1/job" in dlrun("logs", job, "--merge").stderr
    (path,) = dlrun("logs", f"{job}:1", "--rank", "0", "--paths").stdout.split()
    assert path.endswith("points/1/logs/rank-0.log")
    assert "the sweep has no point 9" in dlrun("logs", f"{job}:9", code=2).stderr
