"""When a rank saves: its open files below the place of the checkpoints, at each look."""

from __future__ import annotations

import os

import pytest
from dlrun.node.usage import saving


@pytest.fixture
def clock(monkeypatch):
    """Seconds that a test sets: `monotonic` and `process_time`."""
    now = {"monotonic": 100.0, "process_time": 0.0}
    monkeypatch.setattr(saving.time, "monotonic", lambda: now["monotonic"])
    monkeypatch.setattr(saving.time, "process_time", lambda: now["process_time"])
    return now


def look(of: saving.Saving, clock: dict[str, float], seconds: float = 1.0) -> float:
    clock["monotonic"] += seconds
    of.check(os.getpid())
    return of.seconds


@pytest.mark.parametrize("name", ["ckpt/step-3/rank-0.pt", "ckpt/model.tmp", "ckpt.tmp"])
def test_the_time_with_a_checkpoint_open_for_writing(tmp_path, clock, name):
    of = saving.Saving(str(tmp_path / "ckpt"))
    assert look(of, clock) == 0
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    with (tmp_path / name).open("wb"):
        assert look(of, clock) == 1
        assert look(of, clock, 2.5) == 3.5
    assert look(of, clock) == 3.5


def test_reading_one_and_writing_elsewhere_do_not_count(tmp_path, clock):
    (tmp_path / "ckpt").mkdir()
    (tmp_path / "ckpt" / "old.pt").touch()
    of = saving.Saving(str(tmp_path / "ckpt"))
    look(of, clock)
    with (tmp_path / "ckpt" / "old.pt").open("rb"), (tmp_path / "ckpt-log").open("wb"):
        assert look(of, clock) == 0


def test_a_place_that_is_reached_by_a_link(tmp_path, clock):
    (tmp_path / "there").mkdir()
    (tmp_path / "ckpt").symlink_to(tmp_path / "there")
    of = saving.Saving(str(tmp_path / "ckpt"))
    look(of, clock)
    with (tmp_path / "ckpt" / "new.pt").open("wb"):
        assert look(of, clock) == 1


def test_an_expensive_look_makes_the_next_one_wait(tmp_path, clock, monkeypatch):
    (tmp_path / "ckpt").mkdir()
    of = saving.Saving(str(tmp_path / "ckpt"))
    listed = []

    def names(path):
        listed.append(path)
        clock["process_time"] += 0.005  # as of a program with thousands of open files: worth ten seconds
        return os.listdir(path)

    monkeypatch.setattr(saving.procfs, "names", names)
    look(of, clock)
    with (tmp_path / "ckpt" / "new.pt").open("wb"):
        assert look(of, clock) == 1
        for _ in range(9):
            assert look(of, clock) == 1
        assert look(of, clock) == 11
    assert len(listed) == 2


def test_where_the_spec_names_no_place_nothing_is_looked_at(monkeypatch):
    of = saving.Saving("")
    monkeypatch.setattr(saving.procfs, "names", None)
    of.check(os.getpid())
    assert not of.known


def test_a_process_that_is_gone_or_another_users(tmp_path, clock):
    of = saving.Saving(str(tmp_path))
    for pid in (2**22 + 1, 2):
        clock["monotonic"] += 1
        of.check(pid)
    assert of.seconds == 0
