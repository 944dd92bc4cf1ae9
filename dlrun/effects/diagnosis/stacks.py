"""Where ranks stood when a job hung: the innermost Python frame of each, and who stands apart."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from dlrun.effects.diagnosis.patterns import BY_NOTE, Evidence, Pattern
from dlrun.effects.logs import files as log_files
from dlrun.model.cpuset import format_list

_FAULTHANDLER = re.compile(
    r'(?:Current thread|Thread) .*\(most recent call first\):\n  File "([^"]+)", line (\d+) in (.+)'
)
_PY_SPY = re.compile(r"^Thread (.*)\n    (\S+) \((.+):(\d+)\)", re.MULTILINE)
_TAIL = 512 * 1024
_HANG = Pattern(cause="hang", regex="", means=BY_NOTE["hang"][1], next=BY_NOTE["hang"][2])


def frame(log: str, spied: str) -> str | None:
    """`wait (train.py:12)`: from faulthandler's text in a log, or py-spy's beside it; None if there is neither."""
    found = list(_FAULTHANDLER.finditer(log))
    current = [match for match in found if match[0].startswith("Current")] or found
    if current:
        path, line, name = current[0].groups()
        return f"{name} ({Path(path).name}:{line})"
    threads = list(
        _PY_SPY.finditer(spied)
    )  # without Python's module `threading` there is one, and it has no name
    if match := next((one for one in threads if '"MainThread"' in one[1]), threads[0] if threads else None):
        _, name, path, line = match.groups()
        return f"{name} ({Path(path).name}:{line})"
    return None


def evidence(run: Path) -> Evidence | None:
    """One line on where the ranks stood, those apart from most first; None if nobody knows."""
    standing: dict[str, list[log_files.Log]] = defaultdict(list)
    for log in log_files.find(run, "all"):
        if log.role is None:
            continue
        spied = run / "stacks" / f"{log.role}-{log.rank}.txt"
        where = frame(log_files.last_run(log.path, _TAIL), log_files.last_run(spied, _TAIL))
        if where is not None:
            standing[where].append(log)
    if not standing:
        return None
    few_first = sorted(standing.items(), key=lambda item: len(item[1]))
    parts = [
        f"{members[0].role}{'s' if len(members) > 1 else ''} {format_list(sorted(m.rank for m in members))} in {where}"
        for where, members in few_first
    ]
    return Evidence(log=f"logs/{few_first[0][1][0].path.name}", line="; ".join(parts), pattern=_HANG)
