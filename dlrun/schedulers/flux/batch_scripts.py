"""Conversion of directives of flux batch and options of flux run to keys of the spec (manual pages of flux-core 0.88).

A job requests slots, and each `flux run` in it tasks; a slot counts as a rank only if no `flux run` has a number of tasks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from dlrun.schedulers.directive_words import (
    JOB_LOGS,
    OPTION,
    OWN_ENVIRONMENT,
    PLACEHOLDER,
    long_options,
    words_of,
)
from dlrun.schedulers.draft import SpecDraft

ANYWHERE = ("generic-flux",)
SUBMIT_DIRECTORY = "FLUX_SUBMIT_DIR"
LINE = re.compile(r"#[^A-Za-z0-9]*(?:flux|FLUX):\s+(.*)")
"""A directive line; any characters but letters and digits may precede `flux:`."""

_SHORT = {
    "B": "bank", "N": "nodes", "S": "setattr", "c": "cores", "g": "gpus", "l": "label-io", "n": "count", "o": "setopt",
    "q": "queue", "t": "time-limit", "u": "unbuffered", "v": "verbose", "x": "exclusive",
}  # fmt: skip
_FLAGS = ("exclusive", "label-io", "unbuffered", "verbose", "dry-run", "wrap", "debug", "quiet")
_COUNTS = {"nslots": "slots", "count": "slots", "cores-per-slot": "cores of a slot", "cores": "cores of a slot",
           "gpus-per-slot": "gpus of a slot", "gpus": "gpus of a slot", "nodes": "nodes"}  # fmt: skip
_KEYS = {"job-name": "name", "bank": "resources.account", "queue": "resources.partition", "cwd": "directory",
         "requires": "resources.constraint"}  # fmt: skip
_OWN = {
    **dict.fromkeys(("output", "error", "label-io", "unbuffered"), JOB_LOGS),
    **dict.fromkeys(("env-remove", "env-file"), "it changes the environment: set variables under `environment.variables`"),
    "env": OWN_ENVIRONMENT,
    "verbose": "it changes what flux batch prints",
    "dependency": "name the jobs under `after:`, as `after: [{job: f1234, when: ok}]`",
}  # fmt: skip
_TWICE = "a spec can set an option only once; add this one to `scheduler.directives` of the site profile"
_TO_CHECK = {"not a time", "not an option of flux batch", _OWN["dependency"], _OWN["env-file"], _TWICE}
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def directive(line: int, text: str, draft: SpecDraft) -> None:
    """One `# flux:` line (without the prefix)."""
    for name, value in long_options(words_of(text), _SHORT, _FLAGS):
        shown = f"--{name}{f'={value}' if value else ''}" if name else value
        taken = _option(name, value, draft)
        if isinstance(taken, str):
            report = draft.check if taken in _TO_CHECK or taken.startswith("a placeholder") else draft.leave
            report(line, shown, taken)


def _option(name: str, value: str, draft: SpecDraft) -> str | bool:
    """True if the option was converted, else the reason why not."""
    if name in _KEYS and PLACEHOLDER.fullmatch(value):
        return f"a placeholder: write the value under `{_KEYS[name]}`"
    if name in _COUNTS and draft.count(_COUNTS[name], value):
        return True
    if name in _KEYS:
        draft.put(_KEYS[name], value)
    elif name == "time-limit":
        if (limit := duration(value)) is None:
            return "not a time"
        draft.put("resources.walltime", limit)
    elif name == "exclusive":
        draft.put("resources.exclusive", value=True)
    elif name == "urgency" and value == "0":
        draft.put("hold", value=True)
    elif name == "signal" and (match := re.fullmatch(r"(?:SIG)?([A-Z]+[12]?)?(?:@(\S+))?", value)):
        draft.put(
            "checkpoint",
            {"signal": match[1] or "USR1", "before_end": duration(match[2] or "60s", bare="s") or "60s"},
        )
    elif name == "dependency" and (job := re.fullmatch(r"after(ok|any|notok):(\w+)", value)):
        when = {"ok": "ok", "any": "any", "notok": "not_ok"}[job[1]]
        draft.add("after", {"job": job[2], "when": when})
    elif name == "env" and (variable := re.fullmatch(r"([A-Za-z_]\w*)=([^${]*)", value)):
        draft.put(f"environment.variables.{variable[1]}", variable[2])
    elif name in _OWN:
        return _OWN[name]
    elif not OPTION.fullmatch(name):
        return "not an option of flux batch"
    elif name in (draft.get("resources.options") or {}):
        return _TWICE
    else:
        draft.put(f"resources.options.{'o' if name == 'setopt' else name}", value)
    return True


def duration(text: str, bare: str = "m") -> str | None:
    """A duration of Flux (`90`, `1.5h`, `30m`) in the spec's syntax; a bare number has the unit `bare`."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?)([smhd]?)", text)
    if match is None:
        return None
    unit = match[2] or bare
    return f"{round(float(match[1]) * _SECONDS[unit])}s" if "." in match[1] else match[1] + unit


def settle(draft: SpecDraft) -> None:
    """Convert slots to ranks, cores and GPUs after the launch line was read."""
    counts: Mapping[str, int] = draft.counts
    slots = counts.get("slots", 1)
    if gpus := counts.get("gpus of a slot"):
        draft.counts.setdefault("all_gpus", slots * gpus)
    if "slots" in counts:
        draft.counts.setdefault("tasks", slots)
    if cores := counts.get("cores of a slot"):
        draft.counts.setdefault("cpus_per_node", slots * cores // counts.get("nodes", 1))
