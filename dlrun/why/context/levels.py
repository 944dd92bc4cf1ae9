"""The level of an error before every line of a log: what wrote it uses this one alone, so the level is not evidence."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

_LEVEL = re.compile(
    r"(?P<before>[^a-z]{0,60}(?:[\w.]{1,40} (?:- |\| ?)|(?:\w+=\S+ )?level=)?)"
    r"(?P<level>ERROR|Error|error|ERR|SEVERE|CRITICAL|FATAL)\b[\])|>\"]*(?: +[-|](?= )| +msg=\"?|:)? ?"
)
"""What precedes the level (a time, a logger's name), and the level."""
_OF_GLOG = re.compile(r"(?:\[\S{1,40}\]: ?)?\[?E ?\d{4} [\d:.]{8,20}(?: +\d+)? \S+:\d+\] ?")
"""Level and place as glog writes them."""
_PLACE = re.compile(
    r"(?:\[[^\]\s]{1,80}\]|[\w.<>]{1,60}:[\w.<>]{1,60}:\d+(?= -)|[\w./]{1,60}\.py:\d+|\d\d-\d\d [\d:.,]+ \[[^\]\s]{1,60}\])"
    r"(?: +-(?= )|:)?|[A-Za-z_][\w.]{0,40}(?: -(?= )|:)"
)
"""Where a logger's message is from, after the level: a place in the code, or the logger's name."""
_OTHER = re.compile(r"(?:INFO|DEBUG|NOTICE|WARN|WARNING|TRACE)\b")
_UNLEVELLED = re.compile(
    r'^\s*File "[^"]+", line \d+|\d%\||\bit/s\b|\b(?:INFO|WARNING|WARN|DEBUG)\b|\w+Warning: '
)
"""What no program logs as an error: one call of a traceback, a progress bar, a line with another level of its own."""
_LEAST = 4
_MOST_OTHERS = 0.05
_NUMBER = re.compile(r"\d+")


def stripped(lines: Sequence[str]) -> Sequence[str]:
    """Lines without the level of an error that each of them has, and what stands around it; the same lines if some have none.

    A collector may have another level for what a program printed to its other stream: then what is at the level of errors has
    lines that no program logs as one.
    """
    texts = [line for line in lines if line.strip()]
    for kind in (_LEVEL, _OF_GLOG):
        matches = [match for match in map(kind.match, texts) if match]
        if len(matches) < _LEAST or not _alike(matches):
            continue
        rest = [text for text in texts if not kind.match(text)]
        if len(rest) > len(matches) * _MOST_OTHERS and not _of_a_stream(texts, matches, rest):
            continue
        return _without(kind, lines)
    return lines


def _alike(matches: Sequence[re.Match[str]]) -> bool:
    """Whether what precedes the level differs by numbers alone."""
    (_, most), *_ = Counter(
        _NUMBER.sub("0", match.groupdict().get("before") or "") for match in matches
    ).most_common(1)
    return most >= len(matches) * (1 - _MOST_OTHERS)


def _of_a_stream(texts: Sequence[str], matches: Sequence[re.Match[str]], rest: Sequence[str]) -> bool:
    """Whether the other lines have other levels in the same place, and the errors are lines that no program logs as such."""
    before = len(matches[0].groupdict().get("before") or "")
    others = sum(1 for line in rest if _OTHER.match(line, before))
    unlevelled = sum(1 for match in matches if _UNLEVELLED.search(match.string, match.end()))
    return len(rest) - others <= len(texts) * _MOST_OTHERS and unlevelled >= _LEAST


def _without(kind: re.Pattern[str], lines: Sequence[str]) -> Sequence[str]:
    """Lines without a level, the place after it where all have one, and the columns that are left empty before all."""
    ends = {number: match.end() for number, line in enumerate(lines) if (match := kind.match(line))}
    rests = {number: lines[number][end:] for number, end in ends.items()}
    for _ in range(2):
        heads = [match[0] for match in map(_PLACE.match, rests.values()) if match]
        same = Counter(_NUMBER.sub("0", head) for head in heads).most_common(1)
        kind = _PLACE
        if same and same[0][1] >= len(rests) * (1 - _MOST_OTHERS):
            kind = re.compile(re.escape(same[0][0]).replace("0", r"\d+"))
        elif len(heads) < len(rests) or not all(head.startswith("[") for head in heads):
            break
        rests = {
            number: kind.sub("", rest, count=1) if kind.match(rest) else rest
            for number, rest in rests.items()
        }
    empty = min((len(rest) - len(rest.lstrip(" ")) for rest in rests.values() if rest.strip()), default=0)
    return [rests[number][empty:] if number in rests else line for number, line in enumerate(lines)]
