"""Dates and durations as the clients of schedulers print them."""

from __future__ import annotations

import pytest

from dlrun.schedulers.dates import from_ctime, seconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1-02:03:04", 93784),
        ("02:03:04", 7384),
        ("365-00:00:00", 31536000),
        ("720:00:00", 2592000),
        ("03:04", 184),
        ("90", 90),
        ("00:00:00", 0),
    ],
)
def test_durations_of_slurm_and_pbs(text, expected):
    assert seconds(text) == expected


@pytest.mark.parametrize(
    "text", ["UNLIMITED", "", "1-", "1:2:3:4", "-5", "1:", "²", "9" * 30, "03:04.5", "1-02"]
)
def test_other_texts_are_no_duration(text):
    assert seconds(text) is None


def test_a_date_of_ctime():
    assert from_ctime("Sat Nov  7 03:04:15 2026") == "2026-11-07T03:04:15"
    assert from_ctime("Sa 7 Nov 03:04:15 2026") is None
