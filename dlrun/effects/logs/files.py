"""A job's log files: which there are, what is in them, what comes next."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dlrun.errors import Invalid

_NAME = re.compile(r"(?P<role>.+)-(?P<rank>\d+)\.log")
_CHUNK = 1 << 16
_BEGINS = re.compile(r"^dlrun: (?:job \S+ starts;|run \d+$)", re.MULTILINE)
"""What a log says where a job, or a rank of a later run, begins: logs are appended to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """One log file: the job script's own (`role` None), or one process's."""

    path: Path
    role: str | None = None
    rank: int = 0

    @property
    def label(self) -> str:
        """`job`, or the role and rank such as `rank 3`."""
        return "job" if self.role is None else f"{self.role} {self.rank}"


def find(run: Path, wanted: str) -> list[Log]:
    """The logs of one run that `wanted` names: `first`, `all`, `job`, or ranks such as `0,3-5`.

    `first` is the job script's log and those of rank 0 of every role. Raises Invalid for other words.
    """
    logs = [Log(path=run / "logs" / "job.log")]
    names = ((path, _NAME.fullmatch(path.name)) for path in (run / "logs").glob("*-*.log"))
    logs += [Log(path=path, role=match["role"], rank=int(match["rank"])) for path, match in names if match]
    logs.sort(key=lambda log: (log.role is not None, log.role or "", log.rank))
    if wanted == "job":
        return logs[:1]
    if wanted == "all":
        return logs
    if wanted == "first":
        return [log for log in logs if log.role is None or log.rank == 0]
    ranks = parse_ranks(wanted)
    return [log for log in logs if log.role is not None and log.rank in ranks]


def parse_ranks(text: str) -> frozenset[int]:
    """`0,3-5` as numbers; raises Invalid for anything else."""
    ranks: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if not match or not 0 <= int(match[2] or match[1]) - int(match[1]) <= 1_000_000:
            raise Invalid(
                f"`{text}` names no ranks",
                help="write `first`, `all`, `job`, a rank, or a list such as `0,3-5`",
            )
        ranks.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(ranks)


def last_run(path: Path, most: int) -> str:
    """The end of a log, `most` bytes of it and nothing of earlier runs; empty if it cannot be read."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - most))
            text = stream.read(most).decode("utf-8", "replace")
    except OSError:
        return ""
    begins = [match.start() for match in _BEGINS.finditer(text)]
    return text[begins[-1] :] if begins else text


def follow(
    logs: Callable[[], list[Log]], ended: Callable[[], bool], *, interval: float = 0.1
) -> Iterator[tuple[Log, bytes]]:
    """Whole lines as they are written, until `ended` and everything is read.

    `logs` is asked again each round: files appear while a job starts. A last line without its newline is
    given at the end.
    """
    places: dict[Path, int] = {}
    rest: dict[Path, bytes] = {}
    labels: dict[Path, Log] = {}
    last = False
    while True:
        quiet = True
        for log in logs():
            labels[log.path] = log
            for line in _new_lines(log.path, places, rest):
                quiet = False
                yield log, line
        if last:
            break
        last = quiet and ended()
        if quiet and not last:
            time.sleep(interval)
            interval = min(interval * 1.1, 2.0)
        elif not quiet:
            interval = 0.1
    for path, text in rest.items():
        if text:
            yield labels[path], text + b"\n"


def _new_lines(path: Path, places: dict[Path, int], rest: dict[Path, bytes]) -> Iterator[bytes]:
    try:
        with path.open("rb") as stream:
            stream.seek(places.get(path, 0))
            while chunk := stream.read(_CHUNK):
                lines = (rest.get(path, b"") + chunk).splitlines(keepends=True)
                rest[path] = lines.pop() if not lines[-1].endswith(b"\n") else b""
                yield from lines
            places[path] = stream.tell()
    except FileNotFoundError:
        return
