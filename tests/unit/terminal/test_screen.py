"""What `dlrun usage --live` draws, and what its keys do, on a terminal of 80 columns and 12 lines."""

from __future__ import annotations

import os
from dataclasses import replace
from types import SimpleNamespace

import pytest
from rich.console import Console

from dlrun.model.job import JobStatus, State
from dlrun.usage.live import Live, LiveNode, LiveRank
from dlrun.usage.top_screen import Screen, lines, names

WIDTH, HEIGHT = 80, 12
NODE = LiveNode(node="n1", memory=3e9, limit=64e9, network=1e6, interface="eth0", age=1.0)


def rank(number: int, cores: float = 1.0, **more) -> LiveRank:
    default = {
        "allowed": 4, "memory": 1e9, "peak": 2e9, "read": 0.0, "written": 0.0, "gpus": "", "busy": None, "line": "step 7"
    }  # fmt: skip
    return LiveRank(rank=f"rank-{number}", node="n1", cores=cores, **{**default, **more})


def look(*ranks: LiveRank) -> Live:
    status = JobStatus(job_id="7", state=State.RUNNING)
    return Live(status=status, running=5.0, ranks=ranks, nodes=(NODE,), metrics={})


@pytest.fixture
def screen(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((WIDTH, HEIGHT)))
    monkeypatch.setattr("sys.stdout", SimpleNamespace(fileno=lambda: 1))
    (tmp_path / "logs").mkdir()
    watch = SimpleNamespace(job=SimpleNamespace(directory=tmp_path), run=tmp_path, trouble=None)
    made = Screen(watch, 2.0)

    def press(live: Live, *keys: str) -> list[str]:
        """The lines after these keys."""
        made._draw(live)
        for key in keys:
            made._press(key)
        out = Console(width=WIDTH, height=HEIGHT, color_system=None, force_terminal=True)
        with out.capture() as captured:
            out.print(made._draw(live))
        return captured.get().splitlines()

    press.logs = tmp_path / "logs"
    press.chosen = lambda: made._chosen
    return press


def test_the_chosen_rank_stays_chosen_where_the_order_changes(screen):
    screen(look(rank(0, 3.0), rank(1, 2.0), rank(2, 1.0)), "c", "down")
    assert screen.chosen() == "rank-1"
    shown = screen(look(rank(0, 0.1), rank(1, 0.5), rank(2, 4.0)))
    assert [line.split()[0] for line in shown if line.startswith("rank-")] == ["rank-2", "rank-1", "rank-0"]
    assert screen.chosen() == "rank-1"
    screen(look(rank(0, 0.1), rank(1, 0.5), rank(2, 4.0)), "down", "down")
    assert screen.chosen() == "rank-0"
    screen(look(rank(2, 4.0)))
    assert screen.chosen() == "rank-2"


def test_the_newest_line_of_a_log_with_long_lines_is_seen(screen):
    (screen.logs / "rank-0.log").write_text("".join(f"{i} {'x' * 300}\n" for i in range(30)) + "newest\n")
    shown = screen(look(rank(0)), "enter")
    assert "newest" in shown
    assert len(shown) <= HEIGHT
    assert all(len(line) <= WIDTH for line in shown)
    assert "Enter: all ranks" in shown[-1]


def test_the_log_of_a_role_is_its_own(screen):
    logs = screen.logs.parent / "roles/train/logs"
    logs.mkdir(parents=True)
    (logs / "rank-0.log").write_text("of train\n")
    (screen.logs / "rank-0.log").write_text("of the job\n")
    shown = screen(look(replace(rank(0), rank="train/rank-0")), "enter")
    assert "of train" in shown
    assert "of the job" not in shown


def test_what_there_is_none_of_takes_no_column(screen):
    assert "GPU" not in screen(look(rank(0)))[2].split()
    shown = screen(look(rank(0, gpus="0", busy=57.0), rank(1)))
    assert "GPU" in shown[2].split()
    assert "0: 57 %" in shown[3]


def test_many_ranks_scroll(screen):
    ranks = [rank(number) for number in range(40)]
    shown = screen(look(*ranks), *["down"] * 20)
    assert any(line.startswith("rank-20 ") for line in shown)
    assert len(shown) <= HEIGHT


def test_before_the_first_sample(screen):
    assert "no samples yet" in "\n".join(screen(look(), "down", "c", "enter"))


def test_keys_that_come_at_once():
    """Each of them counts; other sequences, such as F5 and a mouse's, are one key that does nothing."""
    assert names(b"\x1b[B\r") == ["down", "enter"]
    assert names(b"\rgq\x1bOA") == ["enter", "g", "q", "up"]
    assert "q" not in names(b"\x1b[15~\x1b[1;5q\x1b")
    assert names("äq".encode())[-1] == "q"


def test_metrics_have_a_line_of_their_own_and_nothing_wraps(screen):
    """A long name of a job, metrics and a node: the table keeps its place and the keys are seen."""
    reading = SimpleNamespace(value=1234.5678, unit="images/s")
    live = replace(look(*map(rank, range(40))), metrics={f"metric-{i}": reading for i in range(9)})
    live = replace(live, nodes=(replace(NODE, node="n" * 70),))
    shown = screen(live)
    assert len(shown) <= HEIGHT
    assert shown[0].endswith(": running, for 5s") or "running" not in shown[0]
    assert shown[1].startswith("metric-0 1234.57 images/s   metric-1 1234.57 images/s")
    assert shown[3].split()[:3] == ["RANK", "NODE", "CORES"]
    assert shown[4].split()[:5] == ["rank-0", "n1", "1.00", "of", "4"]
    assert shown[-1].startswith("r c m g: order")


def test_cores_without_a_known_limit(screen):
    assert screen(look(rank(0, allowed=0)))[3].split()[:4] == ["rank-0", "n1", "1.00", "1"]


def test_a_job_that_has_ended_shows_how_long_it_ran(screen):
    ended = replace(look(rank(0)), status=JobStatus(job_id="7", state=State.COMPLETED), running=125.0)
    assert screen(ended)[0].endswith(": completed, after 2m5s")
    assert next(lines(ended)).endswith(" completed, after 2m5s")
    assert next(lines(look(rank(0)))).endswith(" running, for 5s")
