"""Conversion of directives of sbatch to keys of the spec: sbatch(1) of Slurm 25.05."""

from __future__ import annotations

import re
from collections.abc import Callable

from dlrun.model.text import digits
from dlrun.model.units import walltime
from dlrun.schedulers.directive_words import (
    JOB_LOGS,
    OPTION,
    OWN_ENVIRONMENT,
    PLACEHOLDER,
    REQUEUES,
    TIME,
    long_options,
    words_of,
)
from dlrun.schedulers.draft import SpecDraft
from dlrun.schedulers.slurm.options import OPTIONS, SHORT

ANYWHERE = ("generic-slurm",)
SUBMIT_DIRECTORY = "SLURM_SUBMIT_DIR"
LINE = re.compile(r"#SBATCH\s+(.*)")
"""A directive line; sbatch ignores indented ones, and those after the first command."""
UNTIL_COMMAND = True
_FLAGS = {
    "exclusive", "hold", "requeue", "no-requeue", "no-kill", "contiguous", "overcommit", "oversubscribe", "parsable",
    "spread-job", "verbose", "quiet", "wait", "get-user-env", "use-min-nodes", "test-only", "reboot",
}  # fmt: skip
_NOT_NEEDED = {
    "output": JOB_LOGS,
    "error": JOB_LOGS,
    "open-mode": "logs of a requeued job are appended to",
    "parsable": "dlrun itself reads the output of sbatch",
    "no-requeue": "`on_failure` sets when a job is requeued",
    "cpu-bind": "`placement` binds ranks: `dlrun tune-affinity`",
    "gpu-bind": "`placement` binds ranks: `dlrun tune-affinity`",
    "mem-bind": "`placement` binds ranks: `dlrun tune-affinity`",
    "hint": "`placement.smt` chooses hardware threads",
    "threads-per-core": "`placement.smt` chooses hardware threads",
    "verbose": "it changes what sbatch prints",
    "quiet": "it changes what sbatch prints",
    "get-user-env": OWN_ENVIRONMENT,
    "wait": "use `dlrun submit --wait`",
    "begin": "use the scheduler's own option: `resources.options.begin`",
    "contiguous": "the scheduler chooses the nodes",
    "no-kill": "dlrun ends a job whose node failed",
}
"""Option -> why the job does not need it."""
_CHANGES_LAYOUT = {
    "ntasks-per-socket": "ranks on each socket: set `resources.ranks_per_node`",
    "ntasks-per-core": "ranks on each core: set `resources.ranks_per_node`",
    "gpus-per-socket": "set `resources.gpus_per_node`",
    "sockets-per-node": "set `resources.cpus_per_rank`, or `constraint`",
    "cores-per-socket": "set `resources.cpus_per_rank`, or `constraint`",
    "dependency": "name the jobs under `after:`, as `after: [{job: 1234, when: ok}]`",
    "input": "dlrun's ranks have no standard input: let the program read the file",
    "overcommit": "more ranks than cores",
    "wrap": "the command that it starts",
    "array": "an array that dlrun cannot read: write `sweep:`",
}
"""Option -> why the user has to look at it."""
_KEYS = {
    "job-name": "name", "account": "resources.account", "partition": "resources.partition", "qos": "resources.qos",
    "constraint": "resources.constraint", "reservation": "resources.reservation", "chdir": "directory",
}  # fmt: skip
_COUNTS = {
    "nodes": "nodes", "ntasks": "tasks", "ntasks-per-node": "tasks_per_node", "tasks-per-node": "tasks_per_node",
    "cpus-per-task": "cpus_per_task", "cpus-per-gpu": "cpus_per_gpu", "ntasks-per-gpu": "tasks_per_gpu",
}  # fmt: skip
_ALIASES = {"tasks-per-node"}
_GPUS = {"gpus-per-task": "gpus_per_task", "gpus-per-node": "gpus", "gpus": "all_gpus"}


def directive(line: int, text: str, draft: SpecDraft) -> None:
    """One `#SBATCH` line (without the prefix)."""
    if text.split()[:1] in (["hetjob"], ["packjob"]):
        draft.check(
            line,
            text,
            "a heterogeneous job: write `roles` where its parts need nodes of one kind, else a spec for each part",
        )
        draft.first_part_only = True
        return
    if draft.first_part_only:
        draft.leave(
            line, text, "of another part of the heterogeneous job: `nodes`, `ranks_per_node`, … of its role"
        )
        return
    for name, value in long_options(words_of(text), SHORT, _FLAGS, _whole):
        shown = f"--{name}{f'={value}' if value else ''}" if name else value
        taken = _option(line, name, value, draft)
        if isinstance(taken, str):
            draft.leave(line, shown, taken)
        elif not taken:
            because = draft.reasons.pop(name, "") or _CHANGES_LAYOUT.get(name, "not an option of sbatch")
            draft.check(line, shown, because)


def _whole(name: str) -> str:
    """The option that a name is short for, as sbatch has it: any beginning of one option alone."""
    names = OPTIONS.begun_by(name)
    return names[0] if len(names) == 1 and name not in _ALIASES else name


def _option(line: int, name: str, value: str, draft: SpecDraft) -> str | bool:
    """True if the option was converted, a text why the job does not need it, False if the user has to look at it."""
    if name in _KEYS and PLACEHOLDER.fullmatch(value):
        draft.check(line, f"--{name}={value}", f"a placeholder: write the value under `{_KEYS[name]}`")
        return True
    if name in _COUNTS:
        low, _, high = value.partition("-")
        if not digits(low) or (high and high != low):
            draft.check(
                line, f"--{name}={value}", "the number is chosen when the job starts: set it in `resources`"
            )
            return True
        return draft.count(_COUNTS[name], low)
    if name in _GPUS:
        return _gpus(_GPUS[name], value, draft)
    if name in _KEYS:
        draft.put(_KEYS[name], value)
        return True
    if name in _READERS:
        return _READERS[name](value, draft)
    if name in _NOT_NEEDED:
        return _NOT_NEEDED[name]
    if len(several := OPTIONS.begun_by(name)) > 1:
        draft.reasons[name] = f"sbatch rejects it: {' or '.join(f'`--{option}`' for option in several)}"
        return False
    if name in _CHANGES_LAYOUT or not OPTION.fullmatch(name):
        return False
    # Any other option of sbatch is kept: a script that needs it must not lose it silently.
    before = draft.get("resources.options") or {}
    if name == "mail-type" and name in before:
        # Scripts may repeat it, once per event.
        before[name] += f",{value}"
    draft.put(f"resources.options.{name}", value)
    return True


def _gpus(count: str, value: str, draft: SpecDraft) -> bool:
    """`4`, `a100:4`, `a100` (one of them)."""
    kind, _, number = value.rpartition(":")
    if not digits(number):
        kind, number = value, "1"
    if kind and not re.fullmatch(r"[A-Za-z0-9][\w.-]*", kind):
        return False
    if kind:
        draft.put("resources.gpu_type", kind)
    return draft.count(count, number)


def _time(value: str, draft: SpecDraft) -> str | bool:
    if not TIME.fullmatch(value):
        return False
    draft.put("resources.walltime", walltime(value))
    return True


def _memory(name: str) -> Callable[[str, SpecDraft], str | bool]:
    """Convert a memory option; Slurm's units are powers of 1024, MiB by default."""

    def read(value: str, draft: SpecDraft) -> str | bool:
        match = re.fullmatch(r"(\d{1,18})([KMGT]?)B?", value, re.IGNORECASE)
        if match is None:
            return False
        unit = (match[2] or "M").upper()
        if name != "mem":
            draft.count(f"KiB {name}", str(int(match[1]) * 1024 ** "KMGT".index(unit)))
        else:
            draft.put("resources.memory_per_node", "all" if int(match[1]) == 0 else f"{match[1]}{unit}iB")
        return True

    return read


def _gres(value: str, draft: SpecDraft) -> str | bool:
    others = []
    for part in value.split(","):
        kind, *more = re.split(r"[:=]", part.split("(")[0].removeprefix("gres:").removeprefix("gres/"))
        if kind != "gpu":
            others.append(part)
        elif "gpus" in draft.counts or not _gpus("gpus", ":".join(more) or "1", draft):
            draft.reasons["gres"] = "GPUs of several types, or requested twice: set `resources.gpus_per_node`"
            return False
    if others:
        draft.put("resources.options.gres", ",".join(others))
    return True


def _tres_per_task(value: str, draft: SpecDraft) -> str | bool:
    """`gres/gpu:a100:2`, the newer form of `--gpus-per-task`; other resources of a task are kept as they are."""
    match = re.fullmatch(r"gres[/:]gpu[:=]([^,()]+)", value)
    if match is not None:
        return _gpus("gpus_per_task", match[1], draft)
    draft.put("resources.options.tres-per-task", value)
    return True


def _flag(key: str, result: object) -> Callable[[str, SpecDraft], str | bool]:
    def read(_value: str, draft: SpecDraft) -> str | bool:
        draft.put(key, result)
        return True

    return read


def _exclusive(value: str, draft: SpecDraft) -> str | bool:
    draft.put(*(("resources.options.exclusive", value) if value else ("resources.exclusive", True)))
    return True


def _signal(value: str, draft: SpecDraft) -> str | bool:
    """`B:` is the signal to the script's own shell, where a trap may do anything; without one it ends the job."""
    match = re.fullmatch(r"(?:([A-Z]*):)?(?:SIG)?(USR1|USR2|TERM|HUP|INT|10|12|15|1|2)(?:@(\d+))?", value)
    if match is None:
        return False
    name = {"10": "USR1", "12": "USR2", "15": "TERM", "1": "HUP", "2": "INT"}.get(match[2], match[2])
    draft.put("checkpoint", {"signal": name, "before_end": f"{match[3] or 60}s"})
    if match[1] and "B" in match[1]:
        because = "`B:` sends it to the script's own shell, whose trap may do more; `checkpoint` sends it to the ranks"
        draft.check(draft.line, f"--signal={value}", because, "checkpoint")
    return True


def _dependency(value: str, draft: SpecDraft) -> str | bool:
    if value == "singleton":
        draft.put("resources.options.dependency", value)
        return True
    matches = [re.fullmatch(r"after(ok|any|notok):([\d:_]+)", part) for part in value.split(",")]
    for match in matches if all(matches) else ():
        assert match is not None  # noqa: S101 - all are
        when = {"ok": "ok", "any": "any", "notok": "not_ok"}[match[1]]
        draft.add("after", *({"job": job, "when": when} for job in match[2].split(":") if job))
    return all(matches)


def _export(value: str, draft: SpecDraft) -> str | bool:
    """The environment of the submission reaches the job unless it is `NONE`; `NAME=value` adds a variable."""
    first, *more = value.split(",")
    parts = ([] if first in {"ALL", "NONE", "NIL", ""} else [first]) + more
    if any(not re.fullmatch(r"[A-Za-z_]\w*=[^$`{]*", part) for part in parts):
        return False
    for part in parts:
        name, _, text = part.partition("=")
        draft.put(f"environment.variables.{name}", text)
    return True if parts else OWN_ENVIRONMENT


def _array(value: str, draft: SpecDraft) -> str | bool:
    ids, _, at_once = value.partition("%")
    tasks: list[int] = []
    for part in ids.split(","):
        match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6})(?::(\d{1,6}))?)?", part)
        if match is None:
            return False
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        tasks += range(first, min(last, first + 100_000) + 1, step or 1)
    draft.tasks = tuple(dict.fromkeys(tasks))
    draft.at_once = int(at_once) if digits(at_once) else None
    return bool(tasks)


def _distribution(value: str, _draft: SpecDraft) -> str | bool:
    if value.split(":", maxsplit=1)[0].split(",", maxsplit=1)[0] in {"block", "*", "plane"}:
        return "ranks fill one node after the other"
    return False


def _hosts(key: str, value: str, draft: SpecDraft) -> bool:
    draft.put(f"resources.{key}", [value])
    return bool(value)


def _requeue(_value: str, draft: SpecDraft) -> bool:
    draft.put(
        "on_failure.requeue",
        1,
        REQUEUES,
    )
    return True


_READERS: dict[str, Callable[[str, SpecDraft], str | bool]] = {
    "time": _time, "mem": _memory("mem"), "mem-per-cpu": _memory("mem-per-cpu"), "mem-per-gpu": _memory("mem-per-gpu"),
    "gres": _gres, "tres-per-node": _gres, "tres-per-task": _tres_per_task,
    "exclusive": _exclusive, "hold": _flag("hold", True), "signal": _signal, "dependency": _dependency,
    "export": _export, "array": _array, "distribution": _distribution,
    "nodelist": lambda value, draft: _hosts("hosts", value, draft),
    "exclude": lambda value, draft: _hosts("exclude", value, draft),
    "requeue": _requeue,
}  # fmt: skip
