"""Conversion of directives of PBS's qsub to keys of the spec: qsub(1B) of OpenPBS 23.06 and of Torque 6 (`nodes=2:ppn=4`)."""

from __future__ import annotations

import re
from collections.abc import Callable

from dlrun.model.text import digits
from dlrun.model.units import walltime
from dlrun.schedulers.directive_words import JOB_LOGS, OPTION, OWN_ENVIRONMENT, PLACEHOLDER, TIME, words_of
from dlrun.schedulers.draft import SpecDraft

ANYWHERE = ("generic-openpbs", "launcher=hydra")
SUBMIT_DIRECTORY = "PBS_O_WORKDIR"
LINE = re.compile(r"#PBS\s+(.*)")
"""A directive line; qsub ignores those after the first command."""
UNTIL_COMMAND = STARTS_AT_HOME = True
_CHUNK = {"ppn": "slots_per_node", "mpiprocs": "slots_per_node", "ngpus": "gpus", "gpus": "gpus", "ncpus": "cpus_per_node",
          "ompthreads": "threads"}  # fmt: skip
_UNREAD = "dlrun has no key for this option"
Taken = str | bool
"""True: converted; a text: why the job does not need it; False: the user has to look at it."""


def directive(line: int, text: str, draft: SpecDraft) -> None:
    """One `#PBS` line (without the prefix)."""
    words = words_of(text)
    while words:
        option, value = words[0][:2], words.pop(0)[2:]
        if not value and option not in _FLAGS and words and not words[0].startswith("-"):
            value = words.pop(0)
        taken = _PBS[option](value, draft) if option in _PBS else False
        shown = f"{option} {value}".strip()
        if isinstance(taken, str):
            draft.leave(line, shown, taken)
        elif not taken:
            draft.check(line, shown, draft.reasons.pop(shown, _UNREAD))


def _list(value: str, draft: SpecDraft) -> Taken:
    if value == "wd":
        draft.starts_in_submit_directory = True
        return True
    left = [part for part in value.split(",") if not _resource(part, draft)]
    if left:
        draft.reasons[f"-l {value}"] = f"dlrun has no key for `{','.join(left)}`"
    return not left


def _resource(part: str, draft: SpecDraft) -> bool:
    name, _, value = part.partition("=")
    if name in {"select", "nodes"}:
        return _select(value, draft)
    if name == "walltime":
        if not TIME.fullmatch(value):
            return False
        draft.put("resources.walltime", f"{value}s" if digits(value) else walltime(value))
    elif name == "place":
        if "excl" in value:
            draft.put("resources.exclusive", value=True)
    elif name in {"ncpus", "ngpus"}:
        return draft.count("cpus_of_job" if name == "ncpus" else "all_gpus", value)
    elif name == "mem":
        draft.put("resources.memory_per_node", bytes_of(value), "of the whole job in the batch script")
    elif value and OPTION.fullmatch(name):
        draft.put(f"resources.options.{name}", value)
    else:
        return False
    return True


def _select(value: str, draft: SpecDraft) -> bool:
    """`2:ncpus=48:mpiprocs=4`; chunks of several kinds are not one number of equal nodes."""
    chunks, *details = value.split("+", maxsplit=1)[0].split(":")
    if not digits(chunks):
        chunks, details = "1", [chunks, *details]
    draft.count("nodes", chunks)
    # Every detail is read, also after one that is not understood.
    return not [detail for detail in details if not _detail(detail, draft)] and "+" not in value


def _detail(detail: str, draft: SpecDraft) -> bool:
    name, equals, value = detail.partition("=")
    if name in _CHUNK:
        return draft.count(_CHUNK[name], value)
    if name == "mem":
        draft.put("resources.memory_per_node", bytes_of(value))
    elif equals:
        before = draft.get("resources.constraint")
        draft.values.setdefault("resources", {})["constraint"] = f"{before}:{detail}" if before else detail
    elif detail in {"shared", "excl", "exclusive_process"}:
        return detail != "shared"
    else:
        draft.put("resources.constraint", detail)
    return True


def bytes_of(value: str) -> str:
    """An amount of PBS (`180gb`, powers of 1024) in the spec's syntax."""
    match = re.fullmatch(r"(\d+)([kmgt]?)[bw]?", value.lower())
    return f"{match[1]}{match[2].upper()}iB" if match and match[2] else value


def _put(key: str) -> Callable[[str, SpecDraft], Taken]:
    def put(value: str, draft: SpecDraft) -> Taken:
        if PLACEHOLDER.fullmatch(value):
            for option in ("-N", "-q", "-A", "-P"):
                draft.reasons[f"{option} {value}".strip()] = f"a placeholder: write the value under `{key}`"
            return False
        draft.put(key, value)
        return True

    return put


def _why(because: str) -> Callable[[str, SpecDraft], Taken]:
    return lambda _value, _draft: because


def _w(value: str, draft: SpecDraft) -> Taken:
    name, _, what = value.partition("=")
    if name == "group_list":
        draft.put("resources.account", what)
        return True
    if name == "depend" and (jobs := re.fullmatch(r"after(ok|any|notok):([\w.:]+)", what)):
        when = {"ok": "ok", "any": "any", "notok": "not_ok"}[jobs[1]]
        draft.put("after", [{"job": job, "when": when} for job in jobs[2].split(":")])
        return True
    return "dlrun sets permissions of its own files" if name == "umask" else False


def _array(value: str, draft: SpecDraft) -> Taken:
    ids, _, at_once = value.partition("%")
    match = re.fullmatch(r"(\d{1,6})-(\d{1,6})(?::([1-9]\d{0,5}))?", ids)
    if match is None or int(match[2]) - int(match[1]) > 100_000:
        return False
    draft.tasks = tuple(range(int(match[1]), int(match[2]) + 1, int(match[3] or 1)))
    draft.at_once = int(at_once) if digits(at_once) else None
    draft.index_names = ("PBS_ARRAY_INDEX", "PBS_ARRAYID")
    return bool(draft.tasks)


def _variables(value: str, draft: SpecDraft) -> Taken:
    parts = value.split(",")
    if any(not re.fullmatch(r"[A-Za-z_]\w*=[^$`{]*", part) for part in parts):
        return False
    for part in parts:
        name, _, text = part.partition("=")
        draft.put(f"environment.variables.{name}", text)
    return True


def _inherits(_value: str, draft: SpecDraft) -> Taken:
    draft.inherits_environment = True
    return OWN_ENVIRONMENT


def _hold(_value: str, draft: SpecDraft) -> Taken:
    draft.put("hold", value=True)
    return True


_FLAGS = {"-V", "-h", "-I", "-X", "-z", "-f"}
_LOGS = _why(JOB_LOGS)
_PBS: dict[str, Callable[[str, SpecDraft], Taken]] = {
    "-l": _list,
    "-N": _put("name"),
    "-q": _put("resources.partition"),
    "-A": _put("resources.account"),
    "-P": _put("resources.account"),
    "-W": _w,
    "-J": _array,
    "-t": _array,
    "-h": _hold,
    "-d": _put("directory"),
    "-w": _put("directory"),
    "-o": _LOGS,
    "-e": _LOGS,
    "-j": _LOGS,
    "-k": _LOGS,
    "-R": _LOGS,
    "-m": _put("resources.options.m"),
    "-M": _put("resources.options.M"),
    "-p": _put("resources.options.p"),
    "-v": _variables,
    "-V": _inherits,
    "-S": _why("the job is a bash script"),
    "-r": _why("`on_failure` sets when a job is requeued"),
    "-z": _why("it changes what qsub prints"),
}
