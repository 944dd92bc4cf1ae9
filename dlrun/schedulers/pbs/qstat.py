"""Parsers of `qstat -f`: JSON, invalid JSON of older OpenPBS, and text; `stanzas` also parses other PBS clients."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

Attributes = Mapping[str, Mapping[str, str]]
"""Job id -> attributes; names in lower case, nested ones as `resource_list.walltime`."""

_ENTRY = re.compile(r'\s*"((?:[^"\\]|\\.)*)"\s*:\s*(.*?),?\s*')


def from_json(stdout: str) -> Attributes:
    """The jobs in the output of `qstat -f -F json`; empty if there is no output."""
    try:
        tree = json.loads(stdout) if stdout.strip() else {}
    except ValueError:
        tree = _tree_of_lines(stdout)
    jobs = tree.get("Jobs", {}) if isinstance(tree, dict) else {}
    named = jobs.items() if isinstance(jobs, dict) else ()
    return {identity: _flat(job) for identity, job in named if isinstance(job, dict)}


def from_text(stdout: str) -> Attributes:
    """The jobs in the output of `qstat -f`; long lines continue after a tab (OpenPBS) or spaces (Torque)."""
    jobs: dict[str, dict[str, str]] = {}
    current: dict[str, str] = {}
    last = ""
    for line in stdout.splitlines():
        if started := re.match(r"Job Id:\s*(\S+)", line):
            current = jobs.setdefault(started[1], {})
            last = ""
        elif entry := re.match(r"(?: {4}|\t)([A-Za-z_][\w.]*) = (.*)", line):
            last = entry[1].lower()
            current[last] = entry[2]
        elif last and line[:1] in "\t ":
            current[last] += line.strip()
    return jobs


def _tree_of_lines(text: str) -> dict[str, Any]:
    """The tree of an output with one entry per line: old qstats do not quote values such as 0x1F or inf."""
    root: dict[str, Any] = {}
    path = [root]
    for line in text.splitlines():
        if line.strip().rstrip(",") == "}":
            path = path[:-1] or [root]
        elif entry := _ENTRY.fullmatch(line):
            name, value = entry.groups()
            if value == "{":
                if not isinstance(path[-1].get(name), dict):
                    path[-1][name] = {}
                path.append(path[-1][name])
            else:
                path[-1][name] = value.strip('"')
    return root


def _flat(job: Mapping[str, Any]) -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in job.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{key}".lower(): str(inner) for key, inner in value.items()}
        else:
            flat[name.lower()] = str(value)
    return flat


def stanzas(text: str) -> dict[str, dict[str, str]]:
    """Name -> attributes, from `qstat -Bf`, `qstat -Qf`, `pbsnodes -a` or `pbs_rstat -f`.

    An unindented line is the name for the indented `key = value` lines below it; long lines continue after a tab.
    """
    by_name: dict[str, dict[str, str]] = {}
    current: dict[str, str] = {}
    last = ""
    for line in text.splitlines():
        if line and not line[0].isspace():
            current = by_name.setdefault(line.partition(":")[2].strip() or line.strip(), {})
        elif match := re.fullmatch(r"\s+([\w.]+) = (.*)", line):
            last = match[1]
            current[last] = match[2].strip()
        elif line.startswith("\t") and last in current:
            current[last] += line.strip()
    return {name: attributes for name, attributes in by_name.items() if attributes}
