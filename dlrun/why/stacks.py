"""The innermost Python frame of each rank of a hung job, and the ranks that differ."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from dlrun.jobs.logs import files as log_files
from dlrun.model.cpuset import format_list
from dlrun.why.evidence import run_number
from dlrun.why.known.form import Evidence, Pattern
from dlrun.why.patterns import BY_NOTE

_FAULTHANDLER = re.compile(
    r'(?:Current thread|Thread) .*\(most recent call first\):\n  File "([^"]+)", line (\d+) in (.+)'
)
_PY_SPY = re.compile(r"^Thread (.*)\n    (\S+) \((.+):(\d+)\)", re.MULTILINE)
_TAIL = 512 * 1024
_HANG = Pattern(cause="hang", regex="", means=BY_NOTE["hang"][1], next=BY_NOTE["hang"][2])


def frame(log: str, spied: str) -> str | None:
    """The innermost frame, as `wait (train.py:12)`, from faulthandler's output in a log or py-spy's; None without both."""
    matches = list(_FAULTHANDLER.finditer(log))
    # Of several threads faulthandler marks as current the one that handled the signal, usually the main thread.
    current = [match for match in matches if match[0].startswith("Current")] or matches
    if current:
        path, line, name = current[0].groups()
        return f"{name} ({Path(path).name}:{line})"
    # py-spy prints thread names from the `threading` module; a program without it has one unnamed thread.
    threads = list(_PY_SPY.finditer(spied))
    if match := next(
        (thread for thread in threads if '"MainThread"' in thread[1]), threads[0] if threads else None
    ):
        _, name, path, line = match.groups()
        return f"{name} ({Path(path).name}:{line})"
    return None


def evidence(run: Path) -> Evidence | None:
    """One line with the ranks per frame, the rarest frame first; None if unknown."""
    standing: dict[str, list[log_files.Log]] = defaultdict(list)
    for log in log_files.find(run, "all"):
        if log.role is None:
            continue
        spied = log_files.Log(path=run / "stacks" / f"{log.role}-{log.rank}.txt")
        where = frame(log_files.last_run(log, _TAIL, run_number(log)), log_files.last_run(spied, _TAIL))
        if where is not None:
            standing[where].append(log)
    if not standing:
        return None
    few_first = sorted(standing.items(), key=lambda item: len(item[1]))
    parts = [
        f"{members[0].role}{'s' if len(members) > 1 else ''} {format_list(sorted(m.rank for m in members))} in {where}"
        for where, members in few_first
    ]
    return Evidence(log=few_first[0][1][0].name, line="; ".join(parts), pattern=_HANG)
