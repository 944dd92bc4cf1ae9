"""Bytes of a file to text; binary files and files that are too long are rejected before parsing."""

from __future__ import annotations

import re
from typing import NamedTuple

from dlrun.model.origin import Layer, Origin
from dlrun.model.problem import Problem
from dlrun.model.text import lazy_pattern

MAX_BYTES = 2**20
"""Maximum size of a file in bytes; the longest known site profile is under 20 KiB."""

LINE_BREAK = lazy_pattern("\r\n|[\n\r\x85\u2028\u2029]")
"""Line ends of YAML 1.1."""

_UNPRINTABLE = lazy_pattern("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
"""Characters not allowed in YAML, listed as ranges: the complement of the allowed ones takes `re` 20 ms to compile."""

_OTHER_SPACE = lazy_pattern(
    r"^[ ]*[\u00a0\u2000-\u200b\u202f\u3000]|^ *(?:- )?[A-Za-z_][\w-]*:[ ]*[\u00a0\u2000-\u200b\u202f\u3000]",
    re.MULTILINE,
)
"""Spaces of typography in the indentation, or after the colon of a key."""


def place(text: str, index: int, name: str, layer: Layer) -> Origin:
    """The line and column of the character at `index`."""
    line, start = 1, 0
    for match in LINE_BREAK.finditer(text, 0, index):
        line, start = line + 1, match.end()
    return Origin(layer=layer, name=name, line=line, column=index - start + 1)


class DecodedText(NamedTuple):
    """The text of a file, and the problem if it is not valid text."""

    text: str
    problem: Problem | None


def decode_bytes(data: bytes, name: str, layer: Layer) -> DecodedText:
    """Decode the bytes of a file."""
    file = Origin(layer=layer, name=name)
    if len(data) > MAX_BYTES:
        return DecodedText(
            "",
            Problem(
                message="the file is longer than 1 MiB",
                origin=file,
                help="name a spec or a site profile: they are text files of a few kilobytes",
            ),
        )
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return DecodedText("", Problem(message="the file is UTF-16", origin=file, help="save it as UTF-8"))
    if b"\0" in data:
        return DecodedText(
            "",
            Problem(
                message="this is a binary file",
                origin=file,
                help="a spec or site profile is a text file in YAML",
            ),
        )
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        return DecodedText(
            "",
            Problem(
                message=f"byte 0x{data[error.start]:02x} is not UTF-8",
                origin=place(before, len(before), name, layer),
                help="save the file as UTF-8",
            ),
        )
    return DecodedText(text, unprintable(text, name, layer))


def unprintable(text: str, name: str, layer: Layer) -> Problem | None:
    """The problem of the first character not allowed in YAML; None if there is none."""
    if (space := _OTHER_SPACE.search(text)) is not None:
        return Problem(
            message="this blank is a no-break space, which YAML takes for a letter",
            origin=place(text, space.end() - 1, name, layer),
            help="write ordinary spaces; text copied from a web page or a PDF file has others",
        )
    match = _UNPRINTABLE.search(text)
    if match is None:
        return None
    return Problem(
        message=f"character U+{ord(match[0]):04X} is not allowed in YAML",
        origin=place(text, match.start(), name, layer),
        help='remove it, or write it in double quotes as an escape such as `"\\x1b"`',
    )
