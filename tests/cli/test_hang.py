"""A training that stops without ending: noticed, shown where it stands, ended."""

from __future__ import annotations

import json

import pytest

TRAIN = """\
import os, pathlib, sys, threading, time

def waits_for_others():
    threading.Event().wait()

def reads_data():
    time.sleep(10000)

print("begun", flush=True)
if sys.argv[1] == "hang":
    reads_data() if os.environ["RANK"] == "1" else waits_for_others()
over, idle, end = pathlib.Path("over"), pathlib.Path(os.environ["DLRUN_RUN_DIR"], "idle"), float("inf")
while not over.exists():
    if os.environ["RANK"] == "0" and sys.argv[1] == "compute":
        sum(range(10000))
    elif os.environ["RANK"] == "0":
        print("a line", flush=True)
        time.sleep(0.3)
    else:
        time.sleep(0.3)
    if os.environ["RANK"] == "0" and len(list(idle.glob("rank-*"))) == 2:  # the others have been found idle
        end = min(end, time.monotonic() + 2)
        if time.monotonic() > end:
            over.touch()
"""
SPEC = "command: [python3, train.py, %s]\nresources: {ranks_per_node: 3, walltime: 30m}\nhang: 20s\n"


@pytest.mark.slow
def test_a_hang_ends_the_job_with_the_stacks_of_all_ranks(dlrun):
    (dlrun.place / "train.py").write_text(TRAIN)
    job = dlrun.submit(SPEC % "hang", "--wait", code=1)
    assert "no rank has written or computed anything for 20s" in (job / "logs" / "job.log").read_text()
    stacks = {path.name: path.read_text() for path in (job / "stacks").glob("*.txt")}
    assert sorted(stacks) == ["rank-0.txt", "rank-1.txt", "rank-2.txt"]
    assert "waits in" in stacks["rank-0.txt"]
    assert "in reads_data" in (job / "logs" / "rank-1.log").read_text()
    (answer,) = json.loads(dlrun("why", job, "--json").stdout)["why"]
    assert answer["cause"] == "hang"
    (status,) = json.loads(dlrun("status", job, "--json").stdout)["jobs"]
    assert [run["state"] for run in status["runs"]] == ["hang"]
    assert "hang" in dlrun("list").stdout
    ended = sorted(path.stem for path in (job / "idle").glob("*.ended"))
    assert ended == ["rank-0", "rank-1", "rank-2"], "the ranks end once their stacks are written"
    assert answer["line"].startswith("rank 1 in reads_data (train.py:7); ranks 0,2 in wait (threading.py:")
    assert not dlrun.alive()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["compute", "write"])
def test_one_rank_that_computes_or_writes_is_progress_for_all(dlrun, how):
    (dlrun.place / "train.py").write_text(TRAIN)
    job = dlrun.submit(SPEC % how, "--wait")
    assert json.loads((job / "state.json").read_text())["exit_code"] == 0
    assert "has written or computed" not in (job / "logs" / "job.log").read_text()


def test_without_the_key_scripts_hold_nothing_of_it(dlrun):
    job = dlrun.submit("command: ['true']\n", "--wait")
    assert not any("watch_progress" in (job / name).read_text() for name in ("job.sh", "rank.sh"))
    assert "PYTHONFAULTHANDLER" not in (job / "job.sh").read_text()
