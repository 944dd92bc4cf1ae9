"""What is drawn on a terminal: states in their colours, bars with their parts."""

from __future__ import annotations

import io
import re
import time
from collections import Counter

import pytest

from dlrun.terminal import drawing as terminal, progress as drawn_progress
from dlrun.terminal.progress_bars import StagingBar


class Terminal(io.StringIO):
    """A terminal that keeps what is written."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("state", "colour"),
    [
        ("pending", "yellow"), ("pending (waits for free nodes)", "yellow"), ("ending", "cyan"), ("running", "cyan"),
        ("2 running, 1 failed", "red"), ("cancelled by admin", "magenta"), ("completed", "green"), ("out of memory", "red"),
    ],
)  # fmt: skip
def test_a_state_has_its_own_colour(state, colour):
    assert terminal._style(state) == colour


def test_a_bar_has_a_part_for_each_state_and_what_waits_is_thin(monkeypatch):
    out = Terminal()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setenv("NO_COLOR", "1")
    terminal.bar("sw", Counter(completed=1, running=1, pending=2), "1 of 4")
    line = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()).splitlines()[0]
    assert line == f"sw {'━' * 20}{'─' * 20}"


def test_a_bar_of_counted_work_ends_without_a_trace(monkeypatch):
    out = Terminal()
    monkeypatch.setattr("sys.stderr", out)
    monkeypatch.setenv("TERM", "xterm")
    with drawn_progress.progress("fetching") as work:
        work.step(1, 4)
        work.notice("a message")
        work.step(2, 4)
    assert "fetching" in out.getvalue()
    assert "a message" in out.getvalue()
    assert out.getvalue().endswith(("\x1b[2K", "\x1b[?25h", "\r")), "the line is erased"


def test_the_bar_of_staging_has_room_for_rate_time_and_the_slowest_node_in_80_columns(monkeypatch):
    out = Terminal()
    monkeypatch.setattr("sys.stderr", out)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    bar = StagingBar()
    for part in (43, 90):
        done = part * 1_500_000_000
        bar.event({
            "event": "progress", "name": "imagenet_of_a_long_name", "bytes": 150 * 10**9, "bytes_done": done, "rate": 11 * 10**8,
            "files": 1_281_167, "files_done": part * 12_811, "last": {"host": "gpu-node-0123", "bytes_done": done - 10**9},
        })  # fmt: skip
        time.sleep(0.2)  # the remaining time is estimated from two steps
    bar.close()
    lines = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", out.getvalue()).replace("\r", "\n").splitlines()
    drawn = [line for line in lines if " 90%" in line][-1]
    assert len(drawn) <= 80
    assert re.search(
        r"^imagenet_of_a_long_n?… .* 90% 135.0/150.0 GB 1,152,990 files 1.10 GB/s \d\d:\d\d", drawn
    ), drawn
    assert "last: gpu-node-0123, 134 GB" in lines


def test_no_bar_where_nobody_looks(monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr("sys.stderr", out)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    with drawn_progress.progress("fetching") as work:
        work.step(1, 4)
    assert out.getvalue() == ""


def test_the_bar_of_staging_names_the_slowest_node(monkeypatch):
    out = Terminal()
    monkeypatch.setattr("sys.stderr", out)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    bar = StagingBar()
    progress = {
        "event": "progress",
        "name": "a",
        "bytes": 10**9,
        "bytes_done": 10**8,
        "files": 9,
        "files_done": 1,
        "rate": 10**8,
    }
    bar.event({**progress, "last": {"host": "n7", "bytes_done": 5 * 10**7}})
    bar.event({**progress, "bytes_done": 2 * 10**8, "last": {"host": "n8", "bytes_done": 10**8}})
    bar.close()
    assert "last: n8, 100 MB" in out.getvalue()
    bar.event({"event": "slow", "name": "a", "host": "n3", "rate": 25_000_000, "others": 10**8})
    bar.event({**progress, "bytes_done": 3 * 10**8, "last": {"host": "n3", "bytes_done": 10**8}})
    bar.close()
    assert "n3 is slow, 25.0 MB/s" in out.getvalue()
