"""Conversion of directives of sbatch and of PBS's qsub to keys of the spec.

Options: sbatch(1) of Slurm 25.05; qsub(1B) of OpenPBS 23.06 and of Torque 6 (`nodes=2:ppn=4`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping

from dlrun.config.batch_script.draft import SpecDraft
from dlrun.model.text import digits

SHORT = {
    "A": "account", "C": "constraint", "D": "chdir", "G": "gpus", "H": "hold", "J": "job-name", "N": "nodes",
    "a": "array", "c": "cpus-per-task", "d": "dependency", "e": "error", "i": "input", "k": "no-kill", "m": "distribution",
    "n": "ntasks", "o": "output", "p": "partition", "q": "qos", "t": "time", "w": "nodelist", "x": "exclude",
}  # fmt: skip
"""One-letter option of sbatch -> its long name."""
_FLAGS = {
    "exclusive", "hold", "requeue", "no-requeue", "no-kill", "contiguous", "overcommit", "oversubscribe", "parsable",
    "spread-job", "verbose", "quiet", "wait", "get-user-env", "use-min-nodes",
}  # fmt: skip
JOB_LOGS = "dlrun writes the job's and each rank's log into the job directory: `dlrun logs`"
"""Why output options are not converted."""
_OWN = {
    "output": JOB_LOGS,
    "error": JOB_LOGS,
    "open-mode": "logs of a requeued job are appended to",
    "export": "the job sets up its own environment; variables are under `environment.variables`",
    "parsable": "dlrun itself reads the output of sbatch",
    "no-requeue": "`on_failure` sets when a job is requeued",
    "distribution": "ranks fill one node after the other",
    "ntasks-per-socket": "`placement` sets the cores of ranks: `dlrun tune-affinity`",
    "cpu-bind": "`placement` binds ranks: `dlrun tune-affinity`",
    "gpu-bind": "`placement` binds ranks: `dlrun tune-affinity`",
    "hint": "`placement.smt` chooses hardware threads",
    "threads-per-core": "`placement.smt` chooses hardware threads",
    "verbose": "it changes what sbatch prints",
    "quiet": "it changes what sbatch prints",
    "get-user-env": "the job sets up its own environment",
    "wait": "use `dlrun submit --wait`",
    "dependency": "name the jobs under `after:`, as `after: [{job: 1234, when: ok}]`",
}
PLACEHOLDER = re.compile(r"\s*[<\[{].*|")
"""A placeholder of a guide (`<account>`), or no value."""
_OPTION = re.compile(r"[A-Za-z]\w*(?:-\w+)*", re.ASCII)
TIME = re.compile(r"[0-9:-]{1,30}")
_KEYS = {
    "job-name": "name", "account": "resources.account", "partition": "resources.partition", "qos": "resources.qos",
    "constraint": "resources.constraint", "reservation": "resources.reservation", "chdir": "directory",
}  # fmt: skip
COUNTS = {
    "nodes": "nodes", "ntasks": "ranks", "ntasks-per-node": "ranks_per_node", "tasks-per-node": "ranks_per_node",
    "cpus-per-task": "cpus_per_rank", "gpus-per-task": "gpus_per_rank", "gpus-per-node": "gpus_per_node", "gpus": "gpus",
}  # fmt: skip
"""Option of sbatch and srun with a number -> key under `resources`."""


def slurm(line: int, text: str, draft: SpecDraft) -> None:
    """One `#SBATCH` line (without the prefix)."""
    for name, value in slurm_options(words_of(text)):
        taken = _slurm_option(name, value, draft)
        if isinstance(taken, str):
            draft.leave(line, f"--{name}{f'={value}' if value else ''}", taken)


def slurm_options(words: list[str]) -> Iterator[tuple[str, str]]:
    """Long names and values of options of sbatch or srun."""
    return long_options(words, SHORT, _FLAGS)


def long_options(
    words: list[str], short: Mapping[str, str], flags: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Long names and values of options; `short`: letter -> long name, `flags`: options without a value."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
        elif word.startswith("-") and len(word) > 1:
            name, value, equals = short.get(word[1], word[1]), word[2:], word[2:]
        else:
            continue
        if not equals and name not in flags and rest and not rest[0].startswith("-"):
            value = rest.pop(0)
        yield name, value


def _slurm_option(name: str, value: str, draft: SpecDraft) -> str | bool:
    """True if the option was converted, else the reason why not."""
    if name in _KEYS and PLACEHOLDER.fullmatch(value):
        return f"a placeholder: write the value under `{_KEYS[name]}`"
    if name in COUNTS and digits(number := value.rpartition(":")[2].partition("-")[0]):
        draft.count(COUNTS[name], number)
        return (
            True if ":" not in value else f"the site profile sets the GPU type; {number} GPUs are requested"
        )
    if name in _KEYS:
        draft.put(_KEYS[name], value)
    elif name == "time":
        if not TIME.fullmatch(value):
            return "not a time"
        draft.put("resources.walltime", walltime(value))
    elif name in {"mem", "mem-per-cpu", "mem-per-gpu"}:
        return _memory(name, value, draft)
    elif name == "gres":
        return _gres(value, draft)
    elif name == "exclusive" and not value:
        draft.put("resources.exclusive", value=True)
    elif name == "hold":
        draft.put("hold", value=True)
    elif name in {"nodelist", "exclude"}:
        draft.put(f"resources.{'hosts' if name == 'nodelist' else 'exclude'}", [value])
    elif name == "requeue":
        draft.put("on_failure.requeue", 1, "maximum number of requeues")
    elif name == "signal" and (match := re.fullmatch(r"(?:[A-Z]*:)?(?:SIG)?([A-Z]+[12]?)(?:@(\d+))?", value)):
        draft.put("checkpoint", {"signal": match[1], "before_end": f"{match[2] or 60}s"})
    elif name == "dependency" and (jobs := re.fullmatch(r"after(ok|any|notok):([\d:_]+)", value)):
        when = {"ok": "ok", "any": "any", "notok": "not_ok"}[jobs[1]]
        draft.put("after", [{"job": job, "when": when} for job in jobs[2].split(":")])
    elif name == "array":
        return "write what changes between the tasks under `sweep:`, as `sweep: {lr: [0.1, 0.2]}`"
    elif name in _OWN:
        return _OWN[name]
    elif not _OPTION.fullmatch(name):
        return "not an option of sbatch"
    else:
        # Any other option of sbatch is kept: a script that needs it must not lose it silently.
        before = draft.get("resources.options") or {}
        if name == "mail-type" and name in before:
            # Scripts may repeat it, once per event.
            before[name] += f",{value}"
        draft.put(f"resources.options.{name}", value)
    return True


def _memory(name: str, value: str, draft: SpecDraft) -> str | bool:
    """Convert a memory option; Slurm's units are powers of 1024, MiB by default."""
    match = re.fullmatch(r"(\d{1,18})([KMGT]?)B?", value, re.IGNORECASE)
    if match is None:
        return "not an amount of memory"
    if name != "mem":
        draft.counts[f"KiB {name}"] = int(match[1]) * 1024 ** "KMGT".index((match[2] or "M").upper())
        return True
    amount = f"{match[1]}{(match[2] or 'M').upper()}iB"
    draft.put("resources.memory_per_node", "all" if int(match[1]) == 0 else amount)
    return True


def _gres(value: str, draft: SpecDraft) -> str | bool:
    others = []
    for part in value.split(","):
        kind, *more = part.split("(")[0].split(":")
        if kind != "gpu":
            others.append(part)
        elif more and digits(more[-1]):
            draft.count("gpus_per_node", more[-1])
        else:
            draft.counts.setdefault("gpus_per_node", 1)
    if others:
        draft.put("resources.options.gres", ",".join(others))
    return True if value.count(":") < 2 else "the site profile sets the GPU type"


def walltime(text: str) -> str:
    """A time of Slurm as a duration of the spec: bare numbers are minutes, `30:00` is minutes and seconds."""
    if re.fullmatch(r"\d+", text):
        return f"{text}m"
    if match := re.fullmatch(r"(\d+):(\d\d?)", text):
        return f"{match[1]}m" if int(match[2]) == 0 else f"{int(match[1])}m{int(match[2])}s"
    if match := re.fullmatch(r"(\d+):(\d+):(\d+)", text):
        return f"{match[1]}:{match[2]:>02}:{match[3]:>02}"
    if match := re.fullmatch(r"(\d+)-(\d+)(?::(\d+))?(?::(\d+))?", text):
        return f"{match[1]}-{int(match[2]):02}:{int(match[3] or 0):02}:{int(match[4] or 0):02}"
    return text


def pbs(line: int, text: str, draft: SpecDraft) -> None:
    """One `#PBS` line (without the prefix)."""
    words = words_of(text)
    while words:
        option, value = words[0][:2], words.pop(0)[2:]
        if not value and words and not words[0].startswith("-"):
            value = words.pop(0)
        taken = _PBS[option](value, draft) if option in _PBS else f"dlrun has no key for `{option}`"
        if isinstance(taken, str):
            draft.leave(line, f"{option} {value}".strip(), taken)


def _pbs_list(value: str, draft: SpecDraft) -> str | bool:
    if value == "wd":
        return "a job of dlrun starts in the directory of the submission"
    left = [part for part in value.split(",") if not _pbs_resource(part, draft)]
    return f"dlrun has no key for `{','.join(left)}`" if left else True


def _pbs_resource(part: str, draft: SpecDraft) -> bool:
    name, _, value = part.partition("=")
    if name == "select":
        chunks, *details = value.split("+", maxsplit=1)[0].split(":")
        draft.count("nodes", chunks if digits(chunks) else "1")
        return (
            all(_chunk(detail, draft) for detail in ([] if digits(chunks) else [chunks]) + details)
            and "+" not in value
        )
    if name == "nodes":
        chunks, *details = value.split(":")
        draft.count("nodes", chunks)
        return all(_chunk(detail, draft) for detail in details)
    if name == "walltime":
        if not TIME.fullmatch(value):
            return False
        draft.put("resources.walltime", f"{value}s" if digits(value) else walltime(value))
    elif name == "place":
        if "excl" in value:
            draft.put("resources.exclusive", value=True)
    elif name in {"ncpus", "ngpus"}:
        if not digits(value):
            return False
        draft.counts["all_cpus" if name == "ncpus" else "gpus"] = int(value)
    elif name == "mem":
        draft.put("resources.memory_per_node", _pbs_bytes(value), "of the whole job in the batch script")
    elif value and _OPTION.fullmatch(name):
        draft.put(f"resources.options.{name}", value)
    else:
        return False
    return True


def _chunk(detail: str, draft: SpecDraft) -> bool:
    name, equals, value = detail.partition("=")
    known = {"ppn": "ranks_per_node", "mpiprocs": "ranks_per_node", "ngpus": "gpus_per_node", "gpus": "gpus_per_node",
             "ncpus": "cpus_per_node", "ompthreads": "cpus_per_rank"}  # fmt: skip
    if name in known:
        return draft.count(known[name], value)
    if name == "mem":
        draft.put("resources.memory_per_node", _pbs_bytes(value))
    elif equals:
        before = draft.get("resources.constraint")
        draft.values.setdefault("resources", {})["constraint"] = f"{before}:{detail}" if before else detail
    else:
        draft.put("resources.constraint", detail)
    return True


def _pbs_bytes(value: str) -> str:
    match = re.fullmatch(r"(\d+)([kmgt]?)[bw]?", value.lower())
    return f"{match[1]}{match[2].upper()}iB" if match and match[2] else value


def _put(key: str) -> Callable[[str, SpecDraft], str | bool]:
    def put(value: str, draft: SpecDraft) -> str | bool:
        if PLACEHOLDER.fullmatch(value):
            return f"a placeholder: write the value under `{key}`"
        draft.put(key, value)
        return True

    return put


def _why(because: str) -> Callable[[str, SpecDraft], str | bool]:
    return lambda _value, _draft: because


def _pbs_w(value: str, draft: SpecDraft) -> str | bool:
    name, _, what = value.partition("=")
    if name == "group_list":
        draft.put("resources.account", what)
        return True
    if name == "depend" and (jobs := re.fullmatch(r"after(ok|any|notok):([\w.:]+)", what)):
        when = {"ok": "ok", "any": "any", "notok": "not_ok"}[jobs[1]]
        draft.put("after", [{"job": job, "when": when} for job in jobs[2].split(":")])
        return True
    return f"dlrun has no key for `{name}`"


_LOGS = _why(JOB_LOGS)
_MAIL = _why("for mail, set `m` and `M` under `resources.options`")
_PBS: dict[str, Callable[[str, SpecDraft], str | bool]] = {
    "-l": _pbs_list,
    "-N": _put("name"),
    "-q": _put("resources.partition"),
    "-A": _put("resources.account"),
    "-P": _put("resources.account"),
    "-W": _pbs_w,
    "-J": _why("write what changes between the tasks under `sweep:`, as `sweep: {lr: [0.1, 0.2]}`"),
    "-t": _why("write what changes between the tasks under `sweep:`, as `sweep: {lr: [0.1, 0.2]}`"),
    "-o": _LOGS,
    "-e": _LOGS,
    "-j": _LOGS,
    "-k": _LOGS,
    "-m": _MAIL,
    "-M": _MAIL,
    "-V": _why("the job sets up its own environment; variables are under `environment.variables`"),
    "-S": _why("the job is a bash script"),
    "-r": _why("`on_failure` sets when a job is requeued"),
}


def words_of(text: str) -> list[str]:
    """The words of a directive, as a shell splits them where it can."""
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return text.split()
