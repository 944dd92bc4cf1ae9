"""Conversion of directives of Grid Engine's qsub to keys of the spec (qsub(1), sge_pe(5), complex(5) of 8.1.9).

A script requests slots. The rule of the parallel environment sets the slots per node; it is not in the script.
"""

from __future__ import annotations

import re

from dlrun.model.text import digits
from dlrun.model.units import walltime
from dlrun.schedulers.directive_words import JOB_LOGS, OWN_ENVIRONMENT, PLACEHOLDER, REQUEUES, TIME, words_of
from dlrun.schedulers.draft import SpecDraft

ANYWHERE = ("generic-gridengine", "launcher=openmpi")
SUBMIT_DIRECTORY = "SGE_O_WORKDIR"
LINE = re.compile(r"#\$\s*(-.*)")
"""A directive line; Grid Engine ignores indented ones."""
STARTS_AT_HOME = True

_OF_ONE_NODE = re.compile(r".*(?:smp|thread|shm|omp|openmp|serial|single|fork|one).*", re.IGNORECASE)
"""Usual names of parallel environments with all slots on one host."""
_GPUS = {"gpu", "gpus", "ngpus", "num_gpu", "cuda", "gpu_card", "gpu_cards", "v100", "a100", "h100"}
_MEMORY = {
    "h_vmem",
    "mem",
    "memory",
    "mem_free",
    "m_mem_free",
    "vf",
    "virtual_free",
    "rmem",
    "s_vmem",
    "h_rss",
}
_EXCLUSIVE = {"exclusive", "excl", "exclusiv"}
_KEYS = {
    "-N": "name",
    "-q": "resources.partition",
    "-P": "resources.account",
    "-ar": "resources.reservation",
    "-wd": "directory",
}
_NOT_NEEDED = {
    **dict.fromkeys(("-o", "-e", "-j"), JOB_LOGS),
    "-S": "the job is a bash script",
    "-V": OWN_ENVIRONMENT,
}
_TO_CHECK = {
    "-notify": "use `checkpoint:`, whose signal only the ranks receive",
    "-t": "write what changes between the tasks under `sweep:`, as `sweep: {lr: [0.1, 0.2]}`",
}
_NODE_TYPES = re.compile(r"(?:node_[fF]|[fF]_node|rt_[A-Z]*F)")
"""Resources that are whole nodes, as `node_f=4` of TSUBAME 4 and `rt_F=2` of ABCI (their user guides)."""
_PARTS_OF_NODES = re.compile(
    r"(?:node_[a-z]|[a-z]_node|rt_[A-Z]*[CG]|cpu_\d+|gpu_1)(?:\.\w+)?|rt_[A-Z]+\.\w+"
)
_DONE = {"-cwd", "-R", "-b", "-terse", "-hard", "-sync", "-w"}
"""Options that dlrun always sets, or that only affect the use of qsub."""
_FLAGS = {"-cwd", "-V", "-h", "-terse", "-hard", "-soft", "-notify"}


def directive(line: int, text: str, draft: SpecDraft) -> None:
    """One `#$` line (without the prefix)."""
    words = words_of(text)
    while words:
        option = words.pop(0)
        values: list[str] = []
        while words and option not in _FLAGS and not re.match(r"-(?!\d)", words[0]):
            values.append(words.pop(0))
        taken = _option(option, values, draft)
        shown = " ".join([option, *values])
        if isinstance(taken, str):
            draft.leave(line, shown, taken)
        elif not taken:
            draft.check(line, shown, draft.reasons.pop(shown, _TO_CHECK.get(option, "not an option of qsub")))


def _option(option: str, values: list[str], draft: SpecDraft) -> str | bool:
    """True if the option was converted, a text why the job does not need it, False if the user has to look at it."""
    value = values[0] if values else ""
    shown = " ".join([option, *values])
    if option in _DONE:
        draft.starts_in_submit_directory |= option == "-cwd"
        return True
    if option in _KEYS:
        if PLACEHOLDER.fullmatch(value):
            draft.reasons[shown] = f"a placeholder: write the value under `{_KEYS[option]}`"
            return False
        draft.put(_KEYS[option], value)
    elif option == "-pe" and len(values) > 1:
        return _slots(value, values[1], draft)
    elif option == "-l":
        left = [part for part in ",".join(values).split(",") if part and not _complex(part, draft)]
        draft.reasons[shown] = (
            "use `checkpoint:`, whose signal only the ranks receive"
            if all(part.startswith("s_rt=") for part in left)
            else f"dlrun has no key for `{','.join(left)}`"
        )
        return not left
    elif option == "-h":
        draft.put("hold", value=True)
    elif option == "-r":
        if value.startswith("y"):
            draft.put("on_failure.requeue", 1, REQUEUES)
    elif option == "-hold_jid" and re.fullmatch(r"[\w.,-]+", value):
        draft.add("after", *({"job": job, "when": "any"} for job in value.split(",") if job))
    elif option == "-v":
        return _variables(",".join(values), draft)
    elif option == "-t":
        return _array(value, draft)
    elif option == "-tc":
        draft.at_once = int(value) if digits(value) else None
    elif option in {"-m", "-M"}:
        draft.put(f"resources.options.{option[1:]}", value)
    elif option in _NOT_NEEDED:
        draft.inherits_environment |= option == "-V"
        return _NOT_NEEDED[option]
    elif option in _TO_CHECK or not re.fullmatch(r"-[A-Za-z_]+", option):
        return False
    else:
        draft.put(f"resources.options.{option[1:]}", " ".join(values))
    return True


def _array(value: str, draft: SpecDraft) -> bool:
    match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6})(?::([1-9]\d{0,5}))?)?", value)
    if match is None:
        return False
    first, last = int(match[1]), int(match[2] or match[1])
    draft.tasks = tuple(range(first, min(last, first + 100_000) + 1, int(match[3] or 1)))
    draft.index_names = ("SGE_TASK_ID",)
    return bool(draft.tasks)


def _slots(environment: str, slots: str, draft: SpecDraft) -> bool:
    """Convert `-pe mpi 64`; the number of nodes is 1 by typical names, else derived from a number in the name (`mpi-8`)."""
    shown = f"-pe {environment} {slots}"
    if not digits(slots) or not int(slots):
        draft.reasons[shown] = (
            "set `resources.nodes` and `resources.ranks_per_node`: the number of slots is a range"
        )
        return False
    draft.count("slots", slots)
    if _OF_ONE_NODE.fullmatch(environment) or slots == "1":
        draft.count("nodes", "1")
        return True
    each = re.search(r"\d+", environment)
    known = each is not None and int(each[0]) and int(slots) % int(each[0]) == 0
    nodes = int(slots) // int(each[0]) if each is not None and known else 1
    draft.count("nodes", str(nodes))
    draft.reasons[shown] = (
        f"{slots} slots of `{environment}` on {nodes} nodes: `qconf -sp {environment}` shows the slots of a node"
    )
    return False


def _complex(part: str, draft: SpecDraft) -> bool:
    """Convert one `name=value` (or `name`) of `-l`; False if there is no key for it."""
    name, _, value = part.partition("=")
    if name == "h_rt":
        if not TIME.fullmatch(value) or value.count(":") > 2:
            return False
        draft.put("resources.walltime", f"{value}s" if digits(value) else walltime(value))
    elif name in ("hostname", "h"):
        draft.put("resources.hosts", value.split("|"))
    elif name in ("qname", "q"):
        draft.put("resources.partition", value)
    elif name in _EXCLUSIVE:
        draft.put("resources.exclusive", value=True)
    elif name in _GPUS and digits(value):
        draft.count("gpus of a slot or host", value)
    elif name in _MEMORY and (size := re.fullmatch(r"(\d{1,15})([KMGT])?B?", value, re.IGNORECASE)):
        draft.counts.setdefault(
            "KiB of a slot", int(size[1]) * 1024 ** "KMGT".index((size[2] or "M").upper())
        )
    elif name in ("s_rt", "s_cpu"):
        return False
    elif _NODE_TYPES.fullmatch(name) and digits(value):
        draft.count("nodes", value)
        draft.put(f"resources.options.{name}", value)
        draft.put("resources.exclusive", value=True)
        draft.reasons["node type"] = f"`{part}` is taken as {value} whole nodes, `resources.nodes`"
    elif _PARTS_OF_NODES.fullmatch(name):
        draft.put(f"resources.options.{name}", value or "1")
        draft.reasons["node type"] = (
            f"`{part}` is a part of a node: set `nodes`, cores and GPUs under `resources`"
        )
    elif value and re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII):
        draft.put(f"resources.options.{name}", value)
    else:
        return False
    return True


def _variables(text: str, draft: SpecDraft) -> bool:
    """Convert `-v A=1,B=2`; names without a value refer to the submitting shell."""
    left = []
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if equals and re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) and not re.search(r"[$`{]", value):
            draft.put(f"environment.variables.{name}", value)
        else:
            left.append(part)
    draft.reasons[f"-v {text}"] = f"set {', '.join(left)} under `environment.variables`"
    return not left


def settle(draft: SpecDraft) -> None:
    """Convert slots after the launch line was read; without a number of ranks in it, a slot is a rank or a core."""
    counts = draft.counts
    slots, nodes = counts.get("slots", 1), counts.get("nodes", 1)
    each = max(1, slots // nodes)
    if gpus := counts.get("gpus of a slot or host"):
        counts.setdefault("gpus", gpus)
        if slots > 1:
            draft.check(
                0,
                f"-l gpu={gpus}",
                "some sites count GPUs by slot, others by host",
                "resources.gpus_per_node",
            )
    if "slots" in counts:
        counts.setdefault("slots_per_node", each)
    if memory := counts.get("KiB of a slot"):
        draft.put(
            "resources.memory_per_node", f"{memory * each // 1024}MiB", "most sites count memory by slot"
        )
    if because := draft.reasons.pop("node type", ""):
        draft.check(0, "-l", because, "resources.nodes")
