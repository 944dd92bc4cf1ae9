"""The cause of a line that dlrun's own programs print in a job, by the tables of `own_messages`."""

from __future__ import annotations

import re

from dlrun.why.known.form import Pattern
from dlrun.why.own_messages import JOB, NODE
from dlrun.why.passing_messages import CACHES, IMAGES, PASSING

_JOB = {**JOB, **IMAGES}


def patterns(*, general: bool = False) -> list[Pattern]:
    """The errors of node programs as patterns, the longest messages first, since `{}` matches anything.

    general: return the general ones, to be tried last.
    """
    rows = [
        (message, cause, own.next)
        for cause, own in NODE.items()
        if own.general is general
        for message in own.messages
    ]
    rows.sort(key=lambda row: -_length(row[0]))
    return [
        Pattern(cause=cause, regex=f"^error: ({_regex(message)})$", means="{1}", next=step)
        for message, cause, step in rows
    ]


def _regex(message: str, variable: str = ".*?") -> str:
    return variable.join(re.escape(part) for part in message.split("{}"))


def pattern_of(message: str) -> Pattern | None:
    """The pattern of a message of a job's script; None for messages after which the job continues."""
    fitting = [
        (_length(known), cause)
        for cause, own in _JOB.items()
        for known in own.messages
        if _is(known, message)
    ]
    passing = max((_length(known) for known in PASSING if _is(known, message)), default=-1)
    length, cause = max(fitting, default=(-1, ""))
    # A progress message may also match a general error: the more specific one counts.
    if length <= passing:
        return None
    return Pattern(
        cause=cause, regex="", means="{1}", next=_JOB[cause].next, consequence=_JOB[cause].consequence
    )


def reports_progress(message: str) -> bool:
    """Whether a message is one of `PASSING`."""
    return pattern_of(message) is None and any(_is(known, message) for known in PASSING)


def of_a_cache(line: str, step: str) -> tuple[str, str] | None:
    """(what a line states, next step) if it is a message of `CACHES`; None for others.

    step: the next step for the error, which names the variable of the cache; a message about another variable does not count.
    """
    for name, own in CACHES.items():
        for message in own.messages:
            match = re.fullmatch(f"dlrun: {_regex(message, '(.*?)')}", line.strip())
            if match is not None and (name != "set" or f"sets {match[1]}:" in step):
                stated = re.sub(r"^dlrun: caches: |: (?:compilers on|each tool) .*$", "", match[0])
                return stated, own.next.replace("{1}", match[1])
    return None


def _is(known: str, message: str) -> bool:
    return re.fullmatch(_regex(known), message) is not None


def _length(known: str) -> int:
    """The number of fixed characters of a message: more mean a more specific match."""
    return len(known.replace("{}", ""))
