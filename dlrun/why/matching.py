"""Which known error a line is: of its writer, by severity. Warnings and progress are never causes.

A line that one library surely wrote is compared with the errors of that library alone: `Network is unreachable` from NCCL is not
about the internet.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from dlrun.why import own_patterns
from dlrun.why.known.causes import CAUSES
from dlrun.why.known.form import Pattern, patterns_of
from dlrun.why.known.table import WRITERS, of_writer

_LEVEL = 200
"""Characters of a line within which its level stands."""
_START_UP = re.compile(r"\S*/\.?(?:bashrc|bash_profile|profile|profile\.d/\S+): (?:line )?\d+: ")
"""What a shell says of its start-up files: they are made for other shells, too, and it continues."""
_HARMLESS = re.compile(
    r"(?:^|[\s\[(|:-])(?:WARNING|WARN|INFO|DEBUG|NOTICE|TRACE)(?=[\]:|\s,)-]|$)"
    r"|\b[A-Z]\w*Warning: |\bLmod Warning:|\bwarnings\.warn\("
    # glog, and PyTorch after its example; also behind a prefix of Ray
    r"|^\W*(?:\[\S+\]:?\s*|\([^()]{0,60}\bpid=[^()]{0,60}\)\s*)*\[?[IWDV]\s?\d{4}[ T]\d\d:\d\d"
    r"|\[[IW]\d{0,4} ?[^\]]*\.(?:cpp|h|cc):\d+\]"
    r"|: [IWDV] \S+:\d+\]"  # TensorFlow and XLA
    r"|\[\d{4}-\d\d-\d\d [\d:,]+ [IWD] \d+ \d+\]"  # Ray
    r"|\b(?:WARN|INFO|DEBU|TRAC)\[\d{4}\]"  # logrus, of programs in Go
    r"|^\S*/(?:pro|epi)log\S*: line \d+: |^ls: "  # of the scheduler, before and after a job; of who looks for something
    r"|^\W*(?:[Ww]arning|[Nn]ote|NOTE): |^\S+: [Ww]arning: "
    r"|\b(?:dconf|G[A-Za-z]*)-(?:CRITICAL|WARNING) \*\*"  # GLib, of a desktop's parts
    r"|\bldconfig\S*: Can't create temporary cache file\b"  # in a container that may only be read
    r"|/ld: cannot find -l(?:cufile|aio)\b"  # DeepSpeed looks whether they are there
    r"|\bUnable to register cu\w+ factory\b|\bCould not find TensorRT\b"  # TensorFlow
    r"|^(?!.*\w(?:Error|Exception)\b)\W*[A-Za-z ]{1,60}: (?i:0|none|ok|enabled|disabled)\W*$"  # a count, or a setting
)
"""Lines of a level below error: of logging, glog, TensorFlow, Ray, the shell."""
_UNHANDLED = re.compile(r"(?i:\bun(?:handled|caught) exception\b)|^\W*(?:FATAL|CRITICAL)\b *: ")
"""What a program may log at any level before it ends, and a grave level before another one that it cites."""
_LOUD = re.compile(
    r"\b[NR]CCL WARN\b|\bWARN(?=: Function: \w+ Line: \d+: NET/OFI\b)|\[WARN\] PLE\b"
    r"|\bINFO: (?=task \S+ blocked for more than |\S+ (?:self-)?detected stall)"  # the kernel
    r"|^[IW]\d{4} [\d:.]+ +\d+ run_docker\.py:\d+\] |: W (?=horovod/common/(?:stall_inspector|operations)\.cc:\d+\])"
)
"""Levels without a meaning: NCCL writes its errors at level WARN (its lowest but one), a container's log is copied at one, and
Horovod waits for missing ranks at W."""
_OUR_ERROR = "error: "
"""How each error of dlrun's node programs begins."""
_WORD = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Match:
    """A known error in a line, and the values of its pattern's groups."""

    pattern: Pattern
    values: tuple[str, ...]


class _Rows:
    """Patterns in order, found by a word that each line of theirs has."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self._by_word: dict[str, list[int]] = defaultdict(list)
        self._always: list[int] = []
        self._rows = [row for row in patterns if not row.stack]
        for number, row in enumerate(self._rows):
            (self._by_word[row.word] if row.word else self._always).append(number)

    def match(self, line: str, words: Iterable[str], *, in_order: bool = True) -> Match | None:
        """The first error; without `in_order` the first that is a cause, else that is a consequence. None without one."""
        numbers = [number for word in words for number in self._by_word.get(word, ())]
        consequence: Match | None = None
        for number in sorted((*numbers, *self._always)):
            row = self._rows[number]
            match = _compiled(row.regex, row.any_case).search(line)
            if match is None:
                continue
            hit = Match(row, tuple(v.strip() for v in match.groups() if v and v.strip()))
            if in_order or not row.consequence:
                return hit
            consequence = consequence or hit
        return consequence


class Table:
    """All known errors for the logs of one job: the site's own, those of dlrun's programs, and those of other programs."""

    def __init__(self, own: Sequence[Pattern] = ()) -> None:
        self._site = _Rows(own)
        self._known: dict[str, Match | None] = {}

    def match(self, line: str) -> Match | None:
        """The known error in a line without control characters; None if there is none, or if its level is lower."""
        if line not in self._known:
            self._known[line] = self.at_any_level(line, least=True)
        return self._known[line]

    def at_any_level(self, line: str, *, least: bool = False) -> Match | None:
        """The known error in a line, though it be a warning; least: not then."""
        words = frozenset(_WORD.findall(line.lower()))
        ours = line.startswith(_OUR_ERROR)
        if (
            match := self._site.match(line, words) or (_ours().match(line, ()) if ours else None)
        ) is not None:
            return match
        if (least and is_harmless(line)) or _START_UP.match(line):
            return None
        if (claimed := _claimed(line)) is not None:
            return claimed.match(line, words)
        match = _others().match(line, words, in_order=False)
        # The general errors of node programs end with one of the system's, which says more.
        return match or (_ours_general().match(line, ()) if ours else None)


def below(line: str, calls: Callable[[], str]) -> Match | None:
    """The known error that a line is below these calls of a traceback, asked if they matter; None if they do not."""
    rows = [row for row in _of_calls() if _compiled(row.regex, row.any_case).search(line)]
    above = calls() if rows else ""
    return next((Match(row, ()) for row in rows if re.search(row.stack, above)), None)


def is_harmless(line: str) -> bool:
    """Whether a line is a warning, or of a lower level."""
    low = _HARMLESS.search(_LOUD.sub("", line)[:_LEVEL]) is not None and not _UNHANDLED.search(line)
    return low or _START_UP.match(line) is not None


def is_claimed(line: str) -> bool:
    """Whether a line was surely written by a library that the table knows."""
    return _claimed(line) is not None


@cache
def _compiled(regex: str, any_case: bool) -> re.Pattern[str]:
    return re.compile(regex, re.IGNORECASE if any_case else 0)


@cache
def _ours() -> _Rows:
    return _Rows(own_patterns.patterns())


@cache
def _ours_general() -> _Rows:
    return _Rows(own_patterns.patterns(general=True))


@cache
def _of_calls() -> tuple[Pattern, ...]:
    return tuple(row for writer in WRITERS for row in of_writer(writer) if row.stack)


@cache
def _others() -> _Rows:
    return _Rows(
        pattern
        for writer in WRITERS
        for form in writer.forms
        if form.anywhere or not writer.line
        for pattern in patterns_of(form, writer, CAUSES[form.cause])
    )


@cache
def _claimants() -> tuple[tuple[re.Pattern[str], _Rows], ...]:
    return tuple((re.compile(writer.line), _Rows(of_writer(writer))) for writer in WRITERS if writer.line)


def _claimed(line: str) -> _Rows | None:
    """The errors of the library that surely wrote a line; None if it is not known who did."""
    return next((rows for regex, rows in _claimants() if regex.search(line)), None)
