"""A log that is longer than what is read of its end: what other processes print of a failure may be megabytes, below its root.

Of lines that differ by numbers alone the last few are kept, up to the output of a program that continued.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import BinaryIO

MOST = 256 * 1024 * 1024
"""Bytes at the end of a log that are read, in two to three seconds of CPU time."""
_ROOM = 1024 * 1024
"""Bytes of lines that are kept."""
_BLOCK = 1024 * 1024
_SHAPES = 100_000
"""Kinds of lines."""
_COMPARED = 200
"""Characters of a line that are compared."""
_NUMBERS = b"0123456789abcdef#\xe2\x96\x88\x8f=>. \t"
"""Characters in which lines of one kind differ: of numbers, addresses and progress bars."""
_FEW = 4
"""Lines of a kind that are kept."""
_ABOVE = 24
"""Lines that are kept above an error of a new kind: its traceback."""
_ORDINARY = 40
"""Lines of ordinary output after which a program has continued: what is above them did not end it."""
_ERROR = re.compile(rb"[Ee]rror|[Ee]xception|FATAL|[Kk]illed|[Ff]ault")
_PREFIX = re.compile(r"^(?:\[\S{1,60}\](?:<\w+>)?:?|\d+:|\([^()]{0,60}\bpid=\d+[^()]{0,60}\)) ?")
"""What a launcher puts before a line."""
_NOISE = re.compile(
    r"^\s*$|^\s|\d%\||\bit/s\b|\bs/it\b|^frame #\d|\[0x[0-9a-f]+\]$"
    r"|(?i:error|fail|fatal|abort|exception|traceback|caught|killed|signal|unable|cannot|could not|closed|lost|timed? ?out)"
)
"""Lines of which any number may follow a failure: of a traceback, a progress bar, a stack, and about an error."""


def lines(
    stream: BinaryIO,
    known: Callable[[str], bool],
    ours: Callable[[bytes], bytes | None],
    begins: Callable[[bytes], bool],
) -> list[str]:
    """The lines of a log, in order.

    known: whether a line is of a library that writes many; ours: a line as it counts, None for one that does not; begins:
    whether the run began with a line.
    """
    kept: list[bytes] = []
    seen: dict[bytes, int] = {}
    room, above, ordinary = _ROOM, 0, 0
    for whole in _backwards(stream):
        if begins(whole):
            break
        line = ours(whole)
        if line is None:
            continue
        shape = line[:_COMPARED].translate(None, _NUMBERS)
        count = seen.get(shape, 0) if len(seen) < _SHAPES else seen.get(shape, _FEW)
        above = _ABOVE if count == 0 and _ERROR.search(line) else above - 1
        if count >= _FEW and above < 0:
            continue
        if count < _FEW:
            if not _is_noise(line.decode("utf-8", "replace"), known):
                ordinary += 1
            else:
                seen[shape] = count + 1
        kept.append(line)
        room -= len(line)
        if room < 0 or ordinary > _ORDINARY:
            break
    return [line.decode("utf-8", "replace") for line in reversed(kept)]


def _is_noise(line: str, known: Callable[[str], bool]) -> bool:
    return known(line) or _NOISE.search(_PREFIX.sub("", line)) is not None


def _backwards(stream: BinaryIO) -> Iterator[bytes]:
    """The lines of a file from its end, each cut off after a block."""
    at = stream.seek(0, os.SEEK_END)
    last, rest = max(0, at - MOST), b""
    while at > last:
        start = max(last, at - _BLOCK)
        stream.seek(start)
        block = stream.read(at - start) + rest[:_BLOCK]
        at = start
        rest, newline, whole = block.partition(b"\n") if start else (b"", b"\n", block)
        if newline:
            yield from reversed(whole.splitlines())
        else:  # a part of a longer line
            rest = block[:_BLOCK]
