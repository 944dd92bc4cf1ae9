"""Letters as strokes, so that a picture has words where no font is installed.

A glyph is a row of strokes with `|` between; a stroke is a row of points, each an x and a y digit: 0 is the
lowest point of a descender, 3 the base line, 8 the height of an `x`, a (10) that of a capital.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TypeAlias

Stroke: TypeAlias = tuple[tuple[float, float], ...]
"""Points from one to the next, in units of the font size: x to the right, y down from the base line."""

UNIT = 0.72 / 7
"""A step of y in font sizes: capitals are 0.72 high, as in most fonts."""

NARROW = 0.9
"""A step of x in steps of y."""

GAP = 0.13
"""Between two glyphs, in font sizes."""

BLANK = 0.28
"""Width of a blank, in font sizes."""

GLYPHS = {
    "a": "44 33 13 04 07 18 38 47|48 43", "b": "0a 03|04 13 33 44 47 38 18 07", "c": "47 38 18 07 04 13 33 44",
    "d": "4a 43|44 33 13 04 07 18 38 47", "e": "05 45 47 38 18 07 04 13 33 44", "f": "3a 2a 19 13|08 28",
    "g": "44 33 13 04 07 18 38 47|48 41 30 10 01", "h": "0a 03|07 18 38 47 43", "i": "08 03|0a 0a",
    "j": "18 11 00|1a 1a", "k": "0a 03|38 05|16 33", "l": "0a 04 13", "m": "08 03|07 18 28 37 33|37 48 58 67 63",
    "n": "08 03|07 18 38 47 43", "o": "13 33 44 47 38 18 07 04 13", "p": "08 00|07 18 38 47 44 33 13 04",
    "q": "48 40|47 38 18 07 04 13 33 44", "r": "08 03|06 17 28 38", "s": "47 38 18 07 16 35 44 33 13 04",
    "t": "1a 14 23 33|08 38", "u": "08 04 13 33 44|48 43", "v": "08 23 48", "w": "08 23 38 43 68",
    "x": "08 43|48 03", "y": "08 23|48 23 10", "z": "08 48 03 43",
    "A": "03 2a 43|15 35", "B": "03 0a 3a 49 48 37 07|37 46 44 33 03", "C": "49 3a 1a 09 04 13 33 44",
    "D": "03 0a 2a 48 45 23 03", "E": "4a 0a 03 43|07 37", "F": "4a 0a 03|07 37",
    "G": "49 3a 1a 09 04 13 33 44 46 26", "H": "0a 03|4a 43|07 47", "I": "0a 03", "J": "3a 34 23 13 04",
    "K": "0a 03|4a 06|17 43", "L": "0a 03 43", "M": "03 0a 25 4a 43", "N": "03 0a 43 4a",
    "O": "13 33 44 49 3a 1a 09 04 13", "P": "03 0a 3a 49 47 36 06", "Q": "13 33 44 49 3a 1a 09 04 13|25 43",
    "R": "03 0a 3a 49 47 36 06|26 43", "S": "49 3a 1a 09 08 17 36 45 44 33 13 04", "T": "0a 4a|2a 23",
    "U": "0a 04 13 33 44 4a", "V": "0a 23 4a", "W": "0a 13 39 53 6a", "X": "0a 43|4a 03", "Y": "0a 27 4a|27 23",
    "Z": "0a 4a 03 43",
    "0": "13 33 44 49 3a 1a 09 04 13", "1": "19 2a 23|13 33", "2": "09 1a 3a 49 48 03 43",
    "3": "09 1a 3a 49 48 37 17|37 46 44 33 13 04", "4": "33 3a 05 45", "5": "4a 0a 07 37 46 44 33 13 04",
    "6": "49 3a 1a 09 04 13 33 44 46 37 17 06", "7": "0a 4a 13",
    "8": "17 08 09 1a 3a 49 48 37 17 06 04 13 33 44 46 37", "9": "04 13 33 44 49 3a 1a 09 07 16 36 47",
    ",": "13 01", ".": "03 03", "-": "06 36", "_": "02 42", ":": "04 04|07 07", ";": "17 17|13 01",
    "!": "0a 05|03 03", "?": "09 1a 3a 49 48 26 25|23 23", "%": "03 4a|0a 1a 19 09 0a|34 44 43 33 34",
    "(": "1a 08 05 13", ")": "0a 18 15 03", "[": "1a 0a 03 13", "]": "0a 1a 13 03", "/": "03 3a", "|": "0a 02",
    "+": "06 46|24 28", "=": "05 45|07 47", "<": "48 06 44", ">": "08 46 04", "*": "07 47|25 29|15 39|19 35",
    "#": "13 2a|33 4a|06 46|08 48", "&": "43 08 09 1a 29 28 05 04 13 23 45", "`": "0a 19", "'": "0a 08",
    '"': "0a 08|2a 28", "~": "06 17 36 47", "·": "06 06", "…": "03 03|23 23|43 43", "×": "14 37|17 34",
}  # fmt: skip

OTHER = "03 0a 4a 43 03"
"""A box, for what is not in the table."""


def width(text: str) -> float:
    """How wide a text is, in font sizes."""
    return sum(_glyph(letter)[1] + GAP for letter in text) - GAP if text else 0.0


def strokes(text: str) -> Iterator[Stroke]:
    """The strokes of a text that begins at (0, 0)."""
    x = 0.0
    for letter in text:
        lines, wide = _glyph(letter)
        for line in lines:
            yield tuple((x + dx, dy) for dx, dy in line)
        x += wide + GAP


@cache
def _glyph(letter: str) -> tuple[tuple[Stroke, ...], float]:
    """Strokes and width of one letter; digits are all as wide as the widest."""
    if letter.isspace():
        return (), BLANK - GAP
    drawn = GLYPHS.get(letter, OTHER)
    wide = 4 if letter.isdecimal() else max(int(point[0]) for point in drawn.replace("|", " ").split())
    lines = tuple(
        tuple((int(at[0]) * UNIT * NARROW, (3 - int(at[1], 16)) * UNIT) for at in stroke.split())
        for stroke in drawn.split("|")
    )
    return lines, wide * UNIT * NARROW
