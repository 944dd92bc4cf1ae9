"""Lines of a role that wait for another: requests in a loop, and pauses, as `needs` and `ready` where its port is known."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_LOOP = re.compile(
    r"(?:until|while\s+!)\s+(?P<ask>[^;\n]+?)\s*(?:;|\n)\s*do\s+(?:(?:echo|printf|date)\b[^;\n&|`]*[;\n]\s*)*sleep\s+[\d.]+[smh]?\s*[;\n]\s*"
    r"(?:(?:echo|printf|date)\b[^;\n&|`]*[;\n]\s*)*done"
)
_HOST = r"\"?\$\{DLRUN_ROLE_(?P<role>\w+?)_HOST\}\"?"
_ASKS = (
    re.compile(
        rf"curl\s+(?P<options>(?:-\S+\s+|--[\w-]+\s+|\d+\s+|/dev/null\s+)*)\"?http://{_HOST}:(?P<port>\d+)(?P<path>/[\w/.-]*)?\"?(?P<rest>.*)"
    ),
    re.compile(rf"nc\s+(?:-[zvw]+\s+|-w\s*\d+\s+|\d\s+)*{_HOST}\s+(?P<port>\d+)(?P<rest>.*)"),
)
_QUIET = re.compile(r"\s*(?:-o\s*/dev/null\s*)?(?:&?[12]?>+\s*(?:/dev/null|&[12])\s*)*")


def needs(
    values: dict[str, Any], used: set[str], listens: Mapping[str, str], firsts: Mapping[int, str]
) -> dict[str, dict[str, Any] | None]:
    """The roles that a role waits for, and how they are ready (None: by default); the lines that do so leave its set-up."""
    environment = values.get("environment", {})
    lines: list[str] = list(environment.get("setup", ()))
    upper = {name.upper(): name for name in firsts.values()}
    awaited: dict[str, dict[str, Any] | None] = {}
    kept = []
    for line in lines:
        if known := _asked(line, upper, listens):
            awaited |= known
        else:
            kept.append(line)
    if used and not awaited and any(re.fullmatch(r"sleep [\d.]+[smh]?", line) for line in kept):
        # The pause is for these; that their ports accept connections is what dlrun waits for by default.
        awaited = dict.fromkeys(sorted(used))
    if awaited:
        kept = [line for line in kept if not re.fullmatch(r"sleep [\d.]+[smh]?", line)]
    if kept != lines:
        if not all(re.fullmatch(r"set [-+][euo][\w +-]*", line) for line in kept):
            environment["setup"] = kept
        else:
            environment.pop("setup", None)
            if not environment:
                values.pop("environment", None)
    return awaited


def _asked(line: str, upper: Mapping[str, str], listens: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The role that a loop waits for, and how it is ready; empty for any other line, or where its port is not dlrun's."""
    loop = _LOOP.fullmatch(line.strip())
    for pattern in _ASKS if loop else ():
        assert loop is not None  # noqa: S101 - there is one
        match = pattern.fullmatch(loop["ask"].strip())
        role = upper.get(match["role"]) if match else None
        if (
            match is None
            or role is None
            or listens.get(role) != match["port"]
            or not _QUIET.fullmatch(match["rest"])
        ):
            continue
        parts = match.groupdict()
        fails = re.search(r"-\w*f|--fail", parts.get("options") or "") is not None
        how = {"http": parts["path"] or "/"} if fails else {"port": True}
        return {role: {**how, "within": "1h"}}
    return {}
