"""Conversion of directives of Grid Engine's qsub to keys of the spec (qsub(1), sge_pe(5), complex(5) of 8.1.9).

A script requests slots. The rule of the parallel environment sets the slots per node; it is not in the script.
"""

from __future__ import annotations

import re

from dlrun.config.batch_script.directives import JOB_LOGS, PLACEHOLDER, TIME, walltime, words_of
from dlrun.config.batch_script.draft import SpecDraft
from dlrun.config.batch_script.launch import DECIDED, RENDEZVOUS_VARIABLES
from dlrun.model.text import digits

LINE = re.compile(r"#\$\s*(-.*)")
"""A directive line; Grid Engine ignores indented ones."""

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
_OWN = {
    **dict.fromkeys(("-o", "-e", "-j"), JOB_LOGS),
    **dict.fromkeys(("-t", "-tc"), "write what changes between the tasks under `sweep:`, as `sweep: {lr: [0.1, 0.2]}`"),
    "-S": "the job is a bash script",
    "-V": "the job sets up its own environment; variables are under `environment.variables`",
    "-notify": "use `checkpoint:`, whose signal only the ranks receive",
    **dict.fromkeys(("-m", "-M"), "for mail, set `m` and `M` under `resources.options`"),
}  # fmt: skip
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
        if isinstance(taken, str):
            draft.leave(line, " ".join([option, *values]), taken)


def _option(option: str, values: list[str], draft: SpecDraft) -> str | bool:
    """True if the option was converted, else the reason why not."""
    value = values[0] if values else ""
    if option in _DONE:
        return True
    if option in _KEYS:
        if PLACEHOLDER.fullmatch(value):
            return f"a placeholder: write the value under `{_KEYS[option]}`"
        draft.put(_KEYS[option], value)
    elif option == "-pe" and len(values) > 1:
        return _slots(value, values[1], draft)
    elif option == "-l":
        left = [part for part in ",".join(values).split(",") if part and not _complex(part, draft)]
        warned = all(part.startswith("s_rt=") for part in left)
        because = (
            "use `checkpoint:`, whose signal only the ranks receive"
            if warned
            else f"dlrun has no key for `{','.join(left)}`"
        )
        return because if left else True
    elif option == "-h":
        draft.put("hold", value=True)
    elif option == "-r":
        if value.startswith("y"):
            draft.put("on_failure.requeue", 1, "maximum number of requeues")
    elif option == "-hold_jid" and re.fullmatch(r"[\w.,-]+", value):
        draft.add("after", *({"job": job, "when": "any"} for job in value.split(",") if job))
    elif option == "-v":
        return _variables(",".join(values), draft)
    elif option in _OWN:
        return _OWN[option]
    elif not re.fullmatch(r"-[A-Za-z_]+", option):
        return "not an option of qsub"
    else:
        draft.put(f"resources.options.{option[1:]}", " ".join(values))
    return True


def _slots(environment: str, slots: str, draft: SpecDraft) -> str | bool:
    """Convert `-pe mpi 64`; the number of nodes is 1 by typical names, else derived from a number in the name (`mpi-8`)."""
    if not digits(slots) or not int(slots):
        return "set `resources.nodes` and `resources.ranks_per_node`: the number of slots is a range"
    if _OF_ONE_NODE.fullmatch(environment):
        draft.count("nodes", "1")
        draft.count("slots", slots)
        return True
    each = re.search(r"\d+", environment)
    known = each is not None and int(each[0]) and int(slots) % int(each[0]) == 0
    nodes = int(slots) // int(each[0]) if each is not None and known else 1
    because = (
        f"check this: {slots} slots of `{environment}`; `qconf -sp {environment}` shows the slots of a node"
    )
    draft.put("resources.nodes", nodes, because)
    draft.count("nodes", str(nodes))
    draft.count("slots", slots)
    return True


def _complex(part: str, draft: SpecDraft) -> bool:
    """Convert one `name=value` (or `name`) of `-l`; False if there is no key for it."""
    name, _, value = part.partition("=")
    if name == "h_rt":
        if not TIME.fullmatch(value):
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
    elif value and re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII):
        draft.put(f"resources.options.{name}", value)
    else:
        return False
    return True


def _variables(text: str, draft: SpecDraft) -> str | bool:
    """Convert `-v A=1,B=2`; names without a value are reported, since they refer to the submitting shell."""
    left = []
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if equals and re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            if name not in RENDEZVOUS_VARIABLES | DECIDED:
                draft.put(f"environment.variables.{name}", value)
        else:
            left.append(part)
    return f"set {', '.join(left)} under `environment.variables`" if left else True


def settle(draft: SpecDraft) -> None:
    """Convert slots after the launch line was read; without a number of ranks in it, a slot is a rank or a core."""
    counts = draft.counts
    slots, nodes = counts.get("slots", 1), counts.get("nodes", 1)
    each = max(1, slots // nodes)
    if gpus := counts.get("gpus of a slot or host"):
        counts.setdefault("gpus_per_node", gpus)
        draft.comments.setdefault(
            "resources.gpus_per_node", "check this: some sites count GPUs by slot, others by host"
        )
    if "slots" in counts:
        alone = 0 if "ranks of a slot" in counts else nodes
        if counts.keys() & {"agent_ranks", "agent_per_node"}:
            ranks = nodes
        else:
            ranks = counts.get("ranks") or counts.get("ranks_per_node", 0) * nodes or alone or slots
            counts["ranks"] = ranks
        counts.setdefault("cpus_per_rank", max(1, slots // ranks))
    if memory := counts.get("KiB of a slot"):
        draft.put(
            "resources.memory_per_node",
            f"{memory * each // 1024}MiB",
            "check this: most sites count memory by slot",
        )
