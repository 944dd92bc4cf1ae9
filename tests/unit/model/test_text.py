"""Text with expansions: pieces are kept apart, and a dollar in a user's string stays a dollar."""

import re

import pytest

from dlrun.model.text import Shell, Text, expanding, lazy_pattern


def test_neighbouring_literals_merge_and_empty_ones_go():
    assert Text.of("a", "", "b", Shell("$X"), Text.of("c", "d"), "e").parts == ("ab", Shell("$X"), "cde")
    assert Text.of().parts == ()
    assert Text.of("").parts == ()


def test_a_lazy_pattern_is_compiled_at_its_first_use_and_then_one():
    late = lazy_pattern("(", 0)  # not one: found out when it is used
    with pytest.raises(re.error):
        late.match("x")
    found = lazy_pattern("A+", re.IGNORECASE).fullmatch("aaa")
    assert found is not None
    assert found[0] == "aaa"
    assert lazy_pattern(rb"\d").sub(b"", b"a1") == b"a"
    assert lazy_pattern("x").pattern == "x"


def test_literal_only_without_expansions():
    assert Text.of("a$HOME").literal == "a$HOME"
    assert Text.of().literal == ""
    assert Text.of("a", Shell("$X")).literal is None
    assert str(Text.of("a", Shell("$X"))) == "a$X"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("/scratch", ("/scratch",)),
        ("/local/$USER/x", ("/local/", Shell("${USER}"), "/x")),
        ("${TMPDIR}/x", (Shell("${TMPDIR}"), "/x")),
        ("$A$B", (Shell("${A}"), Shell("${B}"))),
        ("cost: 5$", ("cost: 5$",)),
        ("$(id)", ("$(id)",)),
        ("${X:-$(id)}", ("${X:-$(id)}",)),
        ("$1 $_x", ("$1 ", Shell("${_x}"))),
    ],
)
def test_only_plain_names_expand(text, parts):
    assert expanding(text).parts == parts
