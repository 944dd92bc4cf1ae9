"""Find, read and follow the log files of a job."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dlrun.errors import Invalid
from dlrun.model.text import digits
from dlrun.system.paths import open_regular

_NAME = re.compile(r"(?P<role>.+?)-(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?\.log", re.ASCII)
_TOGETHER = 65_536
"""Maximum number of ranks in a shared log: a login node may list a file with any numbers in its name."""
_LABEL = re.compile(rb"[^\s:]+ \d+:")
"""The prefix of each line of a log that several ranks share (`logs: node`)."""
_CHUNK = 1 << 16
_MOST = 1 << 25
"""Maximum bytes read at the end of a shared log for the last lines of one rank."""
_BEGINS = re.compile(r"^dlrun: job \S+ starts;", re.MULTILINE)
"""The first line of a job in its script's log, which restarts append to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """The log of one process: the job's script (`role` None) or a rank.

    path: the file; writers: the number of processes that write to it.
    """

    path: Path
    role: str | None = None
    rank: int = 0
    writers: int = 1

    @property
    def label(self) -> str:
        """`job`, or the role and rank such as `rank 3`."""
        return "job" if self.role is None else f"{self.role} {self.rank}"

    @property
    def run(self) -> Path:
        """The run directory: the job's, or that of a point of a sweep."""
        return self.path.parents[2 if digits(self.path.parent.name) else 1]

    @property
    def name(self) -> str:
        """The path in the run directory, such as `logs/rank-3.log`."""
        return self.path.relative_to(self.run).as_posix()


def processes(name: str) -> list[tuple[str, int]]:
    """(role, rank) of each process that writes to a log of this name; empty for other names.

    `rank-3.log` is one rank's log, `rank-8-15.log` a node's.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return []
    first = int(match["first"])
    last = min(int(match["last"] or first), first + _TOGETHER - 1)
    return [(match["role"], rank) for rank in range(first, last + 1)]


def paths(run: Path) -> list[Path]:
    """All log files of a run except the job's own; with more than 1,000 ranks they are in subdirectories."""
    logs = run / "logs"
    return [*logs.glob("*-*.log"), *logs.glob("[0-9]*/*-*.log")]


def find(run: Path, wanted: str) -> list[Log]:
    """The logs of one run selected by `wanted`: `first`, `all`, `job`, or ranks such as `0,3-5`.

    `first`: the job script's log and those of rank 0 of each role. Raises Invalid for other words.
    """
    job = Log(path=run / "logs" / "job.log")
    if wanted == "job":
        return [job]
    ranks = None if wanted == "all" else frozenset({0}) if wanted == "first" else parse_ranks(wanted)
    logs = [
        Log(path=path, role=role, rank=rank, writers=len(of))
        for path in paths(run)
        for of in (processes(path.name),)
        for role, rank in of
        if ranks is None or rank in ranks
    ]
    logs.sort(key=lambda log: (log.role or "", log.rank))
    return [job, *logs] if wanted in ("all", "first") else logs


def name_of(run: Path, role: str, rank: int) -> str:
    """The path, relative to the run directory, of a process's log."""
    log = next((log for log in find(run, str(rank)) if log.role == role), None)
    return log.name if log is not None else f"logs/{role}-{rank}.log"


def parse_ranks(text: str) -> frozenset[int]:
    """The ranks of a list such as `0,3-5`; raises Invalid for anything else."""
    ranks: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if not match or not 0 <= int(match[2] or match[1]) - int(match[1]) <= 1_000_000:
            raise Invalid(
                f"`{text}` does not name ranks",
                help="write `first`, `all`, `job`, a rank, or a list such as `0,3-5`",
            )
        ranks.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(ranks)


def lines(log: Log) -> Iterator[bytes]:
    """The lines of a process in its log; in a log that several ranks share, only its own, without the label.

    Raises OSError if the file cannot be read.
    """
    return _own(log, _bounded(log.path))


_LONGEST = 1 << 20
"""Bytes of a line that are read: a line of gigabytes, as of a progress bar, would have to fit into memory."""
_CUT = b" [the rest of this line is left out]\n"


def _bounded(path: Path) -> Iterator[bytes]:
    """The lines of a file, each cut off after `_LONGEST` bytes."""
    with open_regular(path) as stream:
        while line := stream.readline(_LONGEST):
            yield line if len(line) < _LONGEST or line.endswith(b"\n") else line + _CUT
            while line and not line.endswith(b"\n"):
                line = stream.readline(_LONGEST)


def text(log: Log) -> Iterator[str]:
    """The lines of a process as text. Raises OSError."""
    return (line.decode("utf-8", "replace") for line in lines(log))


def _own(log: Log, every: Iterable[bytes]) -> Iterator[bytes]:
    for owner, line in _assigned({_label(log): log}, every):
        if owner is not None:
            yield line


def _label(log: Log) -> bytes:
    return f"{log.label}:".encode() if log.writers > 1 else b""


def _assigned(
    logs: dict[bytes, Log], every: Iterable[bytes], last: Log | None = None
) -> Iterator[tuple[Log | None, bytes]]:
    """(log or None, line without label) of each line; a line without a label belongs to the previous line's process.

    last: process of the line before the first one.
    """
    alone = logs.get(b"")
    for line in every:
        if alone is not None:
            yield alone, line
        elif match := _LABEL.match(line):
            last = logs.get(match[0])
            yield last, line[match.end() :]
        else:
            yield last, line


def last_run(log: Log, most: int, number: int = 1) -> str:
    """The last `most` bytes of a log, without runs before number `number`; empty if it cannot be read.

    A program may print the same lines as `rank.sh`: the first line with the number of the run is the real one.
    """
    # In a shared log the lines of the other ranks are read, too.
    length = most if log.writers == 1 else max(most, min(most * log.writers, _MOST))
    try:
        with open_regular(log.path) as stream:
            stream.seek(max(0, log.path.stat().st_size - length))
            read = stream.read(length)
    except OSError:
        return ""
    if log.writers > 1:
        read = b"".join(_own(log, read.splitlines(keepends=True)))[-most:]
    text = read.decode("utf-8", "replace")
    if log.role is None:
        begins = [match.start() for match in _BEGINS.finditer(text)]
        return text[begins[-1] :] if begins else text
    begun = re.search(rf"^dlrun: run {number}$", text, re.MULTILINE) if number > 1 else None
    return text[begun.start() :] if begun else text


def follow(
    logs: Callable[[], list[Log]],
    ended: Callable[[], bool],
    *,
    interval: float = 0.1,
    longest: float = 2.0,
    tail: int | None = None,
) -> Iterator[tuple[Log, bytes]]:
    """Yield complete lines as they are written, until `ended()` and all is read.

    logs(): called each round, since files appear while a job starts; interval: initial seconds between rounds, up to
    `longest`; tail: of what is there already, so many lines of each process. An incomplete last line is yielded at the end.
    """
    files: dict[Path, _Followed] = {}
    last = False
    while True:
        quiet = True
        for log in logs():
            files.setdefault(log.path, _Followed(log.path)).logs[_label(log)] = log
        there: dict[Log, deque[bytes]] = {}
        for file in files.values():
            for entry in file.new():
                quiet = False
                if tail is None:
                    yield entry
                else:
                    there.setdefault(entry[0], deque(maxlen=tail)).append(entry[1])
        for log, kept in there.items():
            yield from ((log, line) for line in kept)
        tail = None
        if last:
            break
        # One more round after the end: lines may have been written between the reading and `ended`.
        last = quiet and ended()
        if quiet and not last:
            time.sleep(interval)
            interval = min(interval * 1.1, longest)
        elif not quiet:
            interval = 0.1
    for file in files.values():
        yield from file.end()


class _Followed:
    """A followed file, and the processes whose lines are wanted."""

    def __init__(self, path: Path) -> None:
        self.logs: dict[bytes, Log] = {}
        self._path = path
        self._place = 0
        self._rest = b""
        self._is_cut = False
        """Whether what follows, up to the next newline, belongs to a line that was cut off."""
        self._owner: Log | None = None

    def new(self) -> Iterator[tuple[Log, bytes]]:
        """The complete lines written since the last call."""
        try:
            with open_regular(self._path) as stream:
                stream.seek(self._place)
                while chunk := stream.read(_CHUNK):
                    yield from self._wanted(self._complete(chunk))
                self._place = stream.tell()
        except FileNotFoundError:
            return

    def _complete(self, chunk: bytes) -> list[bytes]:
        """The lines that end in a chunk; one without newline is kept until the rest of it is written, or it is too long."""
        if self._is_cut:
            _, newline, chunk = chunk.partition(b"\n")
            self._is_cut = not newline
        whole = (self._rest + chunk).splitlines(keepends=True)
        self._rest = whole.pop() if whole and not whole[-1].endswith(b"\n") else b""
        if len(self._rest) >= _LONGEST:
            whole.append(self._rest[:_LONGEST] + _CUT)
            self._rest, self._is_cut = b"", True
        return whole

    def end(self) -> Iterator[tuple[Log, bytes]]:
        """The last line, if it has no newline."""
        if self._rest:
            yield from self._wanted([self._rest + b"\n"])

    def _wanted(self, every: list[bytes]) -> Iterator[tuple[Log, bytes]]:
        for owner, line in _assigned(self.logs, every, self._owner):
            self._owner = owner
            if owner is not None:
                yield owner, line
