"""Logs as one, by the times in their lines."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from dlrun.jobs.logs.files import Log
from dlrun.jobs.logs.merge import merged, time_of, without_times

WRITTEN = datetime(2026, 11, 21, 12, 0, tzinfo=timezone(timedelta(hours=1)))


@pytest.mark.parametrize(
    ("line", "when"),
    [
        (b"2026-11-21 10:00:01,250 INFO step 1", "2026-11-21T10:00:01.250+01:00"),
        (b"[2026-11-21T10:00:01.5Z] step", "2026-11-21T10:00:01.5+00:00"),
        (b"2026/11/21 10:00:01 -0500 x", "2026-11-21T10:00:01-05:00"),
        (b"I1121 10:00:01.250000 4242 train.py:3] step", "2026-11-21T10:00:01.25+01:00"),
        (b"[10:00:01] step", "2026-11-21T10:00:01+01:00"),
        (b"10:00:01.125 step", "2026-11-21T10:00:01.125+01:00"),
        (b"[rank 0] 10:00:01 step", "2026-11-21T10:00:01+01:00"),
    ],
)
def test_times(line, when):
    assert time_of(line + b"\n", WRITTEN) == pytest.approx(datetime.fromisoformat(when).timestamp())


def test_seconds_since_1970():
    assert time_of(b"[1750940428.181226] [n1:1:0] ucp_worker.c", WRITTEN) == pytest.approx(1750940428.181226)


@pytest.mark.parametrize(
    "line",
    [
        b"step 1",
        b"  | 10:00:01 said before",
        b"loss 10:20",
        b"2026-13-41 10:00:01",
        b"ratio 99:99:99",
        b"\xff\xfe",
    ],
)
def test_no_times(line):
    assert time_of(line, WRITTEN) is None


def write(tmp_path, rank: int, text: str) -> Log:
    path = tmp_path / f"rank-{rank}.log"
    path.write_text(text)
    return Log(path=path, role="rank", rank=rank)


def test_lines_are_in_the_order_of_their_times_and_the_others_stay_where_they_are(tmp_path):
    zero = write(tmp_path, 0, "begin\n10:00:01 a\n10:00:03 c\nTraceback\n  File x\n10:00:05 e")
    one = write(tmp_path, 1, "10:00:02 b\n10:00:04 d\n10:00:03 back\n")
    bare = write(tmp_path, 2, "no time\nat all\n")
    lines = [(log.rank, line.decode().rstrip("\n")) for log, line in merged([zero, one, bare])]
    assert lines == [
        (2, "no time"), (2, "at all"), (0, "begin"), (0, "10:00:01 a"), (1, "10:00:02 b"), (0, "10:00:03 c"),
        (0, "Traceback"), (0, "  File x"), (1, "10:00:04 d"), (1, "10:00:03 back"), (0, "10:00:05 e"),
    ]  # fmt: skip
    assert without_times([zero, one, bare]) == [bare]


def test_of_equal_times_the_first_log_comes_first(tmp_path):
    logs = [write(tmp_path, rank, "10:00:01 x\n10:00:01 y\n") for rank in (0, 1)]
    assert [log.rank for log, _ in merged(logs)] == [0, 0, 1, 1]


def test_a_log_that_is_gone_has_no_lines(tmp_path):
    gone = Log(path=tmp_path / "none.log", role="rank", rank=0)
    assert (list(merged([gone])), without_times([gone])) == ([], [])
