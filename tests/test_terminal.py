"""The recorded terminal of the README is what its commands print today."""

from __future__ import annotations

import re

import pytest

from docs import terminal


def shape(lines: list[str]) -> list[str]:
    """The lines without what depends on the machine: numbers of cores and names of devices, and cores that are not there."""
    kept = [line for line in lines if not re.match(r"  local rank|  \d+ +\d", line)]
    return [re.sub(r"\d+ cores|eth\d|\d+ PUs|~/jobs\S*", "…", line) for line in kept]


@pytest.mark.slow
def test_the_recorded_terminal_is_what_the_commands_print():
    shown = terminal.text_of(terminal.PICTURE.read_text("utf-8"))
    today = terminal.text_of(terminal.draw(terminal.record()))
    assert shape(today) == shape(shown), "run `python -m docs.terminal`"
    assert any("rank 1 in reads_data (train.py:" in line for line in shown), "the hang is named by its line"
