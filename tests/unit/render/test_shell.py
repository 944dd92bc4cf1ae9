"""Quoting by default: bash reads back what went in, and only dlrun's own expansions expand."""

from __future__ import annotations

import os
import subprocess

import pytest
from hypothesis import given, settings, strategies as st

from dlrun.model.text import Shell, Text
from dlrun.render.shell import Raw, command, comment, join, quote
from tests.examples import examples

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)


def read_back(line: str, **environment: str) -> list[str]:
    """The words that bash makes of a line."""
    done = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {line}"],
        env={"PATH": os.defpath, "LC_ALL": "C.UTF-8", **environment},
        capture_output=True,
        check=True,
    )
    assert done.stderr == b""
    return done.stdout.decode().split("\0")[:-1]


@settings(max_examples=examples(50))
@given(st.lists(TEXTS, min_size=1, max_size=30))
def test_bash_reads_back_any_words(words):
    assert read_back(join(words)) == words
    assert read_back(quote(tuple(words))) == words


@settings(max_examples=examples(25))
@given(st.lists(TEXTS, min_size=1, max_size=4), TEXTS)
def test_expansions_among_text_give_one_word(pieces, value):
    parts = [part for piece in pieces for part in (piece, Shell("$VALUE"))]
    assert read_back(quote(Text.of(*parts)), VALUE=value) == ["".join(p + value for p in pieces)]


def test_an_empty_word_is_a_word():
    assert quote("") == "''"
    assert quote(Text.of()) == "''"
    assert read_back(join(["a", "", Text.of(""), "b"])) == ["a", "", "", "b"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ("it's", "'it'\"'\"'s'"),
        ("$HOME", "'$HOME'"),
        (Shell("$HOME"), '"$HOME"'),
        (Text.of("a b", Shell("$X")), "'a b'\"$X\""),
        (3, "3"),
        (0.5, "0.5"),
        (["a", 1], "a 1"),
        (Raw("a && b"), "a && b"),
    ],
)
def test_forms(value, text):
    assert quote(value) == text


@pytest.mark.parametrize("value", [None, {"a": 1}, object(), b"a"])
def test_what_is_no_word_is_refused(value):
    with pytest.raises(TypeError, match="cannot quote"):
        quote(value)


@pytest.mark.parametrize("value", ["a\0b", Text.of("a\0b")])
def test_no_argument_holds_a_nul_byte(value):
    with pytest.raises(ValueError, match="NUL"):
        quote(value)


@given(st.text())
def test_a_comment_stays_one_line(text):
    assert len(f"# {comment(text)}".splitlines()) == 1


def test_a_command_keeps_its_code():
    assert command(Text.of("test -e ", Shell("$X"), " && true")) == "test -e $X && true"
