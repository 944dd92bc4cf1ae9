"""A log on a terminal: colours and text stay, whatever would steer the terminal is left out."""

from __future__ import annotations

import sys

import pytest

from dlrun.cli.escapes import LINES, shown, visible


@pytest.mark.parametrize(
    ("line", "left"),
    [
        (b"plain \xc3\xa9\n", b"plain \xc3\xa9\n"), (b"\x1b[31mred\x1b[0m\n", b"\x1b[31mred\x1b[0m\n"),
        (b"\x1b]0;title\x07x\n", b"x\n"), (b"\x1b]52;c;aGk=\x1b\\x\n", b"x\n"), (b"\x1b[2J\x1b[Hx\n", b"x\n"),
        (b"\x1bPq\x1b\\x\n", b"x\n"), (b"a\x08\x07\x00b\n", b"ab\n"), (b"50%\r100%\n", b"50%\r100%\n"),
        (b"\x1bcx\n", b"cx\n"), (b"\xc2\x9b2Jx\n", b"2Jx\n"),
    ],
)  # fmt: skip
def test_what_steers_a_terminal_is_left_out(line, left, monkeypatch):
    assert shown(line) == line
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert shown(line) == left


def test_text_of_a_users_is_shown_with_its_control_characters_as_escapes():
    assert visible("a\x1b[2J\n\u202eb é") == "a\\x1b[2J\\n\\u202eb é"
    assert visible("a\x9b2J\n\tb\r", keep=LINES) == "a\\x9b2J\n\tb\\r"
