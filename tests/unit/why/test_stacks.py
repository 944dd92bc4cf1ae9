"""Where ranks stood, from what faulthandler and py-spy write."""

from __future__ import annotations

import pytest

from dlrun.why.stacks import evidence, frame

FAULT = """\
begun
Fatal Python error: Aborted

Thread 0x01 (most recent call first):
  File "/x/monitor.py", line 60 in run

Current thread 0x02 (most recent call first):
  File "/x/train.py", line 12 in wait
  File "/x/train.py", line 30 in <module>
"""
SPIED = """\
rank 0 on n1

process 12: python train.py
  thread 12 (python) waits in futex_wait_queue; system call 202
Process 12: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 12 (idle): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:2501)
    <module> (train.py:30)
Thread 15 (idle): "Thread-1"
    wait (threading.py:320)
"""


@pytest.mark.parametrize(
    ("log", "spied", "where"),
    [
        (FAULT, "", "wait (train.py:12)"),
        ("begun\n", SPIED, "all_reduce (distributed_c10d.py:2501)"),
        ("begun\n", SPIED.replace(': "MainThread"', ""), "all_reduce (distributed_c10d.py:2501)"),
        ("begun\n", "rank 0 on n1\n  thread 12 (python) waits in futex\n", None),
    ],
)
def test_the_innermost_frame(log, spied, where):
    assert frame(log, spied) == where


def test_ranks_that_stand_apart_come_first(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "stacks").mkdir()
    for rank in range(4):
        text = FAULT.replace("wait", "load") if rank == 2 else FAULT
        (tmp_path / "logs" / f"rank-{rank}.log").write_text(text)
    found = evidence(tmp_path)
    assert (found.log, found.line) == (
        "logs/rank-2.log", "rank 2 in load (train.py:12); ranks 0-1,3 in wait (train.py:12)"
    )  # fmt: skip


def test_nobody_knows(tmp_path):
    (tmp_path / "logs").mkdir()
    assert evidence(tmp_path) is None
