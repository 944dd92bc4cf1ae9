"""The list of the files that `dlrun results --fetch` writes for a job, in its record and in other directories.

Each line is written before its file, so that a kill leaves no file of a fetch that is unknown. A fetch begins with the line
`{"fetch": PART, "to": DIRECTORY}`, in which PART is the name of its incomplete files; each file adds its name, size and time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from dlrun.model.record import record
from dlrun.system.paths import read_bytes

FETCHED = "fetched.jsonl"
_MOST = 256 << 20
"""Maximum bytes of the list: that of a million files has 100 MB."""


@record(frozen=True, slots=True, kw_only=True)
class File:
    """A file as the job has it: name, size and time (ns), which a link has not; part: the name of its incomplete copy."""

    name: str
    size: int | None
    mtime_ns: int | None
    part: str

    @property
    def part_path(self) -> str:
        """The path of the incomplete copy, beside the file."""
        return os.path.join(os.path.dirname(self.name), self.part)  # noqa: PTH118, PTH120 - many files


@record(frozen=True, slots=True, kw_only=True)
class Fetch:
    """One fetch: its destination, its files so far, and whether it ended by itself."""

    to: str
    files: tuple[File, ...]
    ended: bool


def read(directory: Path) -> tuple[Fetch, ...]:
    """The fetches of a job with this record; lines that dlrun does not write are skipped."""
    fetches: dict[str, tuple[str, list[File]]] = {}
    ended = set()
    for line in _lines(directory):
        match line:
            case {"fetch": str() as part, "to": str() as to}:
                fetches.setdefault(part, (to, []))
            case {"fetch": str() as part, "name": str() as name} if part in fetches:
                fetches[part][1].append(_file(part, name, line))
            case {"fetch": str() as part, "ended": True}:
                ended.add(part)
            case _:
                pass
    return tuple(Fetch(to=to, files=tuple(own), ended=part in ended) for part, (to, own) in fetches.items())


def _lines(directory: Path) -> Iterator[Mapping[str, Any]]:
    try:
        text = read_bytes(directory / FETCHED, _MOST)
    except OSError:
        return
    for line in text.splitlines():
        with suppress(ValueError, RecursionError):
            if isinstance(data := json.loads(line), dict):
                yield data


def _file(part: str, name: str, line: Mapping[str, Any]) -> File:
    size, mtime_ns, own = line.get("size"), line.get("mtime_ns"), line.get("part")
    known = isinstance(size, int) and isinstance(mtime_ns, int)
    return File(
        name=name,
        size=size if known else None,
        mtime_ns=mtime_ns if known else None,
        part=own if isinstance(own, str) and "/" not in own else part,
    )


class InRecord(NamedTuple):
    """Files that were fetched into a record itself, with size and time, None for links; and the incomplete copies."""

    files: dict[str, set[tuple[int, int] | None]]
    parts: set[str]


def in_record(directory: Path) -> InRecord:
    """What was fetched into the record itself."""
    files: dict[str, set[tuple[int, int] | None]] = {}
    parts: set[str] = set()
    for fetch in read(directory):
        below = os.path.relpath(fetch.to, os.path.realpath(directory))
        if below.startswith(".."):
            continue
        for file in fetch.files:
            state = None if file.size is None or file.mtime_ns is None else (file.size, file.mtime_ns)
            files.setdefault(os.path.normpath(f"{below}/{file.name}"), set()).add(state)
            parts.add(os.path.normpath(f"{below}/{file.part_path}"))
    return InRecord(files, parts)
