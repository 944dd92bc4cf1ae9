"""A log on a terminal: colours and text stay, whatever would steer the terminal is left out."""

from __future__ import annotations

import json
import re
import sys

import pytest

from dlrun.model.text import LINES, visible
from dlrun.terminal.printing import echo, echo_data, echo_drawn, echo_log, json_text
from tests import house


@pytest.mark.parametrize(
    ("line", "left"),
    [
        (b"plain \xc3\xa9\n", b"plain \xc3\xa9\n"), (b"\x1b[31mred\x1b[0m\n", b"\x1b[31mred\x1b[0m\n"),
        (b"\x1b]0;title\x07x\n", b"x\n"), (b"\x1b]52;c;aGk=\x1b\\x\n", b"x\n"), (b"\x1b[2J\x1b[Hx\n", b"x\n"),
        (b"\x1bPq\x1b\\x\n", b"x\n"), (b"a\x08\x07\x00b\n", b"ab\n"), (b"50%\r100%\n", b"50%\r100%\n"),
        (b"\x1bcx\n", b"cx\n"), (b"\xc2\x9b2Jx\n", b"2Jx\n"),
    ],
)  # fmt: skip
def test_what_steers_a_terminal_is_left_out(line, left, monkeypatch, capfdbinary):
    echo_log(line)
    sys.stdout.flush()
    assert capfdbinary.readouterr().out == line
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    echo_log(line)
    sys.stdout.flush()
    assert capfdbinary.readouterr().out == left
    echo_drawn(line.decode())
    assert capfdbinary.readouterr().out == left


def test_text_of_a_users_is_shown_with_its_control_characters_as_escapes():
    assert visible("a\x1b[2J\n\u202eb é") == "a\\x1b[2J\\n\\u202eb é"
    assert visible("a\x9b2J\n\tb\r", keep=LINES) == "a\\x9b2J\n\tb\\r"


@pytest.mark.parametrize("data", ["\x1b\x7f\x85\u202e\udc80\U000e0041", ["a", {"b\n": "\x9b"}], "plain é"])
def test_json_is_the_same_with_every_control_character_as_an_escape_of_its_own(data):
    for indent in (None, 1):
        text = json_text(data, indent=indent)
        assert json.loads(text) == data
        assert text.replace("\n", "").isprintable()


def test_lines_for_people_have_control_characters_as_escapes(capsys):
    echo("a\x1b[31m\nb\r")
    assert capsys.readouterr().out == "a\\x1b[31m\nb\\r\n"


def test_every_other_way_to_the_terminal_is_known():
    """`print`, `click.echo` and `rich`'s own texts are ruff's to find; here what writes to the streams themselves."""
    found = {
        module.name
        for module in house.modules()
        if not module.name.startswith("dlrun/node/")
        and re.search(r"sys\.(stdout|stderr)(\.buffer)?\.write|csv\.writer\(sys|file=sys", module.text)
    }
    assert found == {
        "dlrun/terminal/printing.py",
        "dlrun/cli/main.py",  # where no file can be opened, not even the module that prints errors
        "dlrun/affinity/load.py",  # numbers, to a pipe
        "dlrun/affinity/report_load.py",
        "dlrun/system/private.py",  # one escaped line, below all output of commands
        "dlrun/inside/shell.py",  # the streams of a program that the user names
        "dlrun/jobs/staging/run.py",
        "dlrun/system/transport/openssh.py",
    }


@pytest.mark.parametrize(
    ("text", "data"), [("é", "é".encode()), ("a\udcff", b"a\xff"), ("a\ud800", b"a\\ud800")]
)
def test_data_may_have_what_no_encoding_has(text, data, capfdbinary):
    """A path of the user's that is not UTF-8 is written back as it is; half of a character comes from a damaged record."""
    echo_data(text)
    sys.stdout.flush()
    assert capfdbinary.readouterr().out == data
