"""PBS's pending reasons in plain English.

They are the comments of OpenPBS 23.06's scheduler (src/scheduler/config.h and constant.h, messages that begin with
`Not Running` or `Can Never Run`) and of pbs_mom.
"""

from __future__ import annotations

import re

_WORDS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), words)
    for pattern, words in (
        (r"Can Never Run:?+\s*+(.+)", "can never run: {}"),
        (r"Can Never Run", "can never run: change `resources`"),
        (r"Insufficient amount of resource:? host\b", "a host that it names is in use, offline or down"),
        (r"Insufficient amount of (?:server |queue )?resource:? (\S+)", "waits for free nodes (too little `{}` is free)"),
        (r"Not enough (?:free )?nodes|No available resources|not enough of the right type", "waits for free nodes"),
        (r"user has reached (?:the )?(?:server|queue \S+)(?:'s)? (?:running )?job limit|User job limit",
         "you have reached your limit of running jobs"),
        (r"(?:Queue \S+|Server) per-user limit reached on resource (\S+)", "you have reached your limit of `{}`"),
        (r"(?:Queue \S+|Server) per-group limit reached on resource (\S+)", "your group has reached its limit of `{}`"),
        (r"(?:Queue \S+|Server) per-project limit reached on resource (\S+)", "your project has reached its limit of `{}`"),
        (r"group has reached|Group job limit", "your group has reached its limit of running jobs"),
        (r"project has reached", "your project has reached its limit of running jobs"),
        (r"would exceed .*?limit on resource (\S+)", "would exceed your limit of `{}`"),
        (r"Queue \S+ (?:running )?job limit|Queue job limit", "the queue has reached its limit of running jobs"),
        (r"Server (?:running )?job limit", "the server has reached its limit of running jobs"),
        (r"conflict with reservation", "would overlap with a reservation"),
        (r"top job", "jobs with a higher priority come first"),
        (r"starving job", "the nodes are reserved for a job that has waited long"),
        (r"dedicated time|cross .*? boundary|prime ?time", "would overlap with time reserved for others (often maintenance)"),
        (r"Queue not started|Queue is not started", "the queue starts no jobs now"),
        (r"not an execution queue", "its queue runs no jobs: change `resources.partition`"),
        (r"Placement set .*too few|Host set .*too few", "no placement set (group of nodes) has enough free nodes"),
        (r"exclusive", "waits for nodes that no other job uses"),
        (r"ineligible state|offline|is down", "a node that the job needs is down"),
        (r"licen[sc]e", "waits for a software licence"),
        (r"too many failed attempts", "held after too many failed starts: ask the centre"),
        (r"Job held by user|held by \S+ on", "held: `dlrun hold --release` releases it"),
        (r"fair ?share", "jobs of users with a higher fair share come first"),
        (r"Cannot run .*stage|stag", "files are being copied for it"),
    )
)  # fmt: skip


def in_words(reason: str, _code: str) -> str | None:
    """The text for a comment, a sentence that is searched for known phrases; None without one."""
    matches = ((pattern.search(reason), words) for pattern, words in _WORDS)
    return next((words.format(*match.groups()) for match, words in matches if match), None)
