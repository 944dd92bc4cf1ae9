"""How the time of a pattern of `dlrun why` grows with the length of a line: a log may have very long ones."""

from __future__ import annotations

import re
import time

import pytest

from dlrun.why.known.form import WITHOUT_NAME, Writer
from dlrun.why.known.table import WRITERS, of_writer

PARTS = ("x", "x:", "x ", " ", "a/b", "/root/a ", ": ", "'", "[", "]: ", ", ")
"""What a long line may consist of: a word, a path, spaces, addresses, lists."""
TIMES = 4
"""How much longer the second of two lines is."""
UNNOTICED = 200_000
"""Nanoseconds."""


def name_of(writer: Writer) -> str:
    return writer.name


def growth(compiled: re.Pattern[str], part: str, length: int) -> float:
    """How often the time for a line of this length the one for a longer line takes, with the best of as many tries as needed."""
    line = part * (TIMES * length // len(part))
    best = {size: seconds(compiled, line[:size]) for size in (length, TIMES * length)}
    for _ in range(5):
        if best[TIMES * length] <= 2 * TIMES * best[length]:
            break
        best = {size: min(best[size], seconds(compiled, line[:size])) for size in best}
    if best[TIMES * length] < UNNOTICED:  # then noise is most of it
        return TIMES
    return best[TIMES * length] / best[length]


def seconds(compiled: re.Pattern[str], line: str) -> float:
    begun = time.thread_time_ns()
    compiled.search(line)
    return max(1, time.thread_time_ns() - begun)


def steep(regex: str) -> list[tuple[str, float, str]]:
    """The parts of a line with which the time grows with the square of its length, or for words of its own with the cube."""
    compiled = re.compile(regex)
    found = [(part, growth(compiled, part, 1000), 2 * TIMES) for part in PARTS]
    words = [word for word in re.split(r"\\.|[^\w :/',\-]", regex) if len(word) > 3]
    found += [(word, growth(compiled, word, 250), 2 * TIMES**2) for word in dict.fromkeys(words)]
    return [(part, times, regex) for part, times, most in found if times > most]


@pytest.mark.parametrize(
    "writer", [w for w in WRITERS if w.line or any(f.regex for f in w.forms)], ids=name_of
)
def test_the_time_of_a_regular_expression_does_not_grow_with_the_square_of_the_length(writer):
    """With its own words again and again it may, as after each of them the rest is searched, but not with the cube."""
    rows = [form.regex for form in writer.forms if form.regex] + [writer.line] * bool(writer.line)
    assert [found for regex in rows for found in steep(regex)] == []


@pytest.mark.parametrize("writer", WRITERS, ids=name_of)
def test_a_text_searches_a_limited_part_of_a_line_after_each_of_its_beginnings(writer):
    """A variable part without a limit is the line's own beginning or end: others would search the rest each time."""
    own = {form.regex for form in writer.forms}
    texts = [pattern.regex for pattern in of_writer(writer) if pattern.regex not in own]
    inner = [re.sub(r"^\^\(\.\+\?\)|\(\\S\.\*\)$", "", regex) for regex in texts]
    assert [regex for regex in inner if re.search(r"(?<!\\)\.[*+]", regex)] == []


def test_a_steep_pattern_is_noticed():
    assert growth(re.compile(r"(.+?): not found"), "x", 1000) > 2 * TIMES
    assert growth(re.compile(r"ibv_\w+.*failed"), "ibv_", 100) > 2 * TIMES**2


@pytest.mark.parametrize("writer", WRITERS, ids=name_of)
def test_a_meaning_without_a_name_is_a_sentence(writer):
    """A line of a pattern without a group names nothing: its meaning leaves that out, and has no `it` in its place."""
    patterns = [pattern for pattern in of_writer(writer) if not re.compile(pattern.regex).groups]
    assert [p.regex for p in patterns if "{1}" in WITHOUT_NAME.sub("", p.means)] == []
    assert [p.regex for p in patterns if re.search(r": ?it$|\(it\)|\{1\}", p.meaning(()))] == []
