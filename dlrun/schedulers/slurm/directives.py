"""`#SBATCH` lines of a request."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby

from dlrun.model.hostlist import fold
from dlrun.model.origin import Origin
from dlrun.model.plan import Directive, Request
from dlrun.model.record import record
from dlrun.model.site import SchedulerSite
from dlrun.model.units import Duration, many
from dlrun.schedulers.directive_list import INDEX, DirectiveList
from dlrun.schedulers.slurm.options import OPTIONS

PREFIX = "#SBATCH"

_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./&|*!\[\]()^~-]+")
_WHEN = {"ok": "afterok", "any": "afterany", "not_ok": "afternotok"}


def quote(value: str) -> str:
    """Quote a value for sbatch's tokenizer, in which a backslash escapes also inside quotes.

    The tokenizer (`_get_argument`, src/sbatch/opt.c) differs from a shell's: `#` begins a comment anywhere.
    """
    if _PLAIN.fullmatch(value):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def directives(
    request: Request, site: SchedulerSite, output: str, origins: Mapping[str, Origin] | None = None
) -> Sequence[Directive]:
    """The `#SBATCH` lines of a request; raises InvalidFile for what Slurm or the site cannot do."""
    draft = DirectiveList(PREFIX, request, site, origins or {})
    draft.add(f"--job-name={quote(request.name)}", "name of the spec", "name")
    _output(draft, output)
    _layout(draft)
    _gpus(draft)
    _memory(draft)
    _who(draft)
    _where(draft)
    _when(draft)
    draft.add_raw(site.directives, "set for every job of this site", "scheduler.directives")
    draft.add_options(OPTIONS, quote)
    draft.add_raw(request.directives, "from the spec or site profile", "directives")
    # Of several `--gres` or `--constraint` lines sbatch uses only the last, so they are joined after all have been added.
    draft.merge("--gres=", partial(_value, "--gres", ""), ",".join)
    draft.merge("--constraint=", partial(_value, "--constraint", "-C"), partial(_all_features, draft))
    check_rules(draft)
    return draft.finish()


def _output(draft: DirectiveList, output: str) -> None:
    # A backslash in the file name turns off all `%` patterns of the path (sbatch(1), filename pattern).
    if "\\" in output:
        draft.problem(
            f"Slurm cannot write to `{output}`, because a backslash has a special meaning",
            "use a path without one",
        )
    pattern = output.replace("%", "%%").replace(INDEX, "%a")
    draft.add(f"--output={quote(pattern)}", "standard output and error, in the job directory")
    draft.add_requeue("--requeue", "--no-requeue")
    draft.add_if_set("requeue", "--open-mode=append", "a requeued job keeps its earlier log")


def _layout(draft: DirectiveList) -> None:
    request, site = draft.request, draft.site
    draft.add(f"--nodes={request.nodes}", many(request.nodes, "node"), "nodes")
    draft.add(f"--ntasks={request.ranks}", many(request.ranks, "rank"), "ranks")
    # Without --no-kill, Slurm ends the whole allocation when a node fails.
    draft.outlive_nodes("--no-kill")
    draft.add(
        f"--ntasks-per-node={request.ranks_per_node}",
        f"at most {many(request.ranks_per_node, 'rank')} per node",
        "ranks_per_node",
    )
    if site.cpus != "none":
        share = request.cpus_per_rank or (request.cpus_per_node or 0) // request.ranks_per_node
        if share:
            draft.add(f"--cpus-per-task={share}", f"{site.cpus} of each rank", "cpus_per_rank")
        # The request per node exceeds the sum of the ranks' shares; --cpus-per-task alone would allocate less.
        if (
            request.cpus_per_node
            and request.cpus_per_node > share * request.ranks_per_node
            and not (request.exclusive or site.exclusive)
        ):
            draft.add(f"--mincpus={request.cpus_per_node}", f"{site.cpus} on each node", "cpus_per_node")
    if request.exclusive and not site.exclusive:
        draft.add("--exclusive", "whole nodes for this job", "exclusive")
    draft.add_array(array)


def array(points: int, at_once: int | None) -> str:
    """`--array=0-99%4`: an array of tasks, at most `at_once` running."""
    return f"--array=0-{points - 1}" + (f"%{at_once}" if at_once else "")


def _gpus(draft: DirectiveList) -> None:
    request, form = draft.request, draft.site.gpus
    if not request.gpus_per_node or form == "none" or draft.refused("gpus_per_node"):
        return
    kind = f"{request.gpu_type}:" if request.gpu_type else ""
    because = f"{many(request.gpus_per_node or 0, 'GPU')} on each node"
    if form == "gpus_per_node":
        draft.add(f"--gpus-per-node={kind}{request.gpus_per_node}", because, "gpus_per_node")
    elif form == "gres":
        draft.add(f"--gres=gpu:{kind}{request.gpus_per_node}", because, "gpus_per_node")
    elif form == "ngpus":
        draft.problem(
            "`ngpus` is the option of PBS to request GPUs",
            "set scheduler.gpus to gpus_per_node, gres or none",
            "scheduler.gpus",
        )
    elif request.gpus_per_node % request.ranks_per_node:
        draft.problem(
            f"{request.gpus_per_node} GPUs cannot be shared evenly by {request.ranks_per_node} ranks",
            "this site requests GPUs per task: set resources.gpus_per_node to a multiple of resources.ranks_per_node",
            "ranks_per_node",
        )
    else:
        share = request.gpus_per_node // request.ranks_per_node
        draft.add(
            f"--gpus-per-task={kind}{share}", f"{because}, requested per task at this site", "gpus_per_node"
        )


def _memory(draft: DirectiveList) -> None:
    memory = draft.request.memory_per_node
    if memory == "all":
        draft.add("--mem=0", "all memory of each node", "memory_per_node")
    elif memory is not None:
        draft.add(f"--mem={max(1, memory.mebibytes())}M", f"{memory} on each node", "memory_per_node")
    if draft.request.node_local and not draft.request.directives:  # else the site's directives request it
        size = max(1, draft.request.node_local.mebibytes())
        draft.add(f"--tmp={size}M", f"{draft.request.node_local} of node-local storage", "node_local")


def _who(draft: DirectiveList) -> None:
    draft.add_account("--account", "the account to charge", quote)
    draft.add_if_set("partition", "--partition={}", "the partition", quote)
    draft.add_if_set("qos", "--qos={}", "the quality of service", quote)
    draft.add_if_set("reservation", "--reservation={}", "the reservation", quote)


def _where(draft: DirectiveList) -> None:
    draft.add_if_set("constraint", "--constraint={}", "required node features", quote)
    draft.add_if_set("hosts", "--nodelist={}", "only these hosts", _host_list)
    draft.add_if_set("exclude", "--exclude={}", "excluded hosts", _host_list)


def _host_list(hosts: Sequence[str]) -> str:
    """A folded host list, quoted; written out where a suffix follows brackets (`a[1-2]-ib`), which Slurm 22.05 rejects."""
    folded = fold(hosts)
    return quote(",".join(hosts) if re.search(r"\][^,]", folded) else folded)


def _when(draft: DirectiveList) -> None:
    request = draft.request
    draft.add_if_set("walltime", "--time={}", "the walltime, {}", Duration.clock)
    if request.after:
        conditions = [
            ":".join((_WHEN[when], *(dependency.job_id for dependency in group)))
            for when, group in groupby(request.after, key=lambda dependency: dependency.when)
        ]
        draft.add(f"--dependency={quote(','.join(conditions))}", "dependencies", "after")
        draft.add(
            "--kill-on-invalid-dep=yes",
            "otherwise a job that can never start stays in the queue forever",
            "after",
        )
    draft.add_if_set("hold", "--hold", "submitted on hold")
    if request.signal and request.signal_before is not None:
        if request.signal_before > 65535:  # sbatch(1): "between 0 and 65535"
            draft.problem(
                "Slurm cannot send a signal more than 65535 s before the end",
                "shorten checkpoint.before_end",
                "signal_before",
            )
        draft.add(
            f"--signal=B:{request.signal}@{int(request.signal_before)}",
            f"{request.signal} to the job script {request.signal_before} before the end",
            "signal",
        )


def _value(long: str, short: str, directive: str) -> str | None:
    """The option's value in a directive, or None for directives of other options."""
    try:
        words = shlex.split(directive)
    except ValueError:
        return None
    option, equals, value = words[0].partition("=")
    if equals and option == long:
        return value
    if len(words) == 2 and words[0] in {long, short}:
        return words[1]
    return words[0][2:] if short and len(words) == 1 and words[0].startswith(short) else None


def _all_features(draft: DirectiveList, features: list[str]) -> str:
    # Only plain features can be joined by `&` without a change of meaning.
    if any(re.search(r"[|,\[\]*]", feature) for feature in features):
        draft.problem(
            f"the constraints `{'` and `'.join(features)}` cannot be joined",
            "write the whole expression under resources.constraint",
            "constraint",
        )
    return quote("&".join(features))


# Options of sbatch that are mutually exclusive or need a minimum version of Slurm.
#
# From SchedMD's CHANGELOG and sbatch(1) of the versions named.
@record(frozen=True, slots=True)
class Clash:
    """Two options that Slurm from version `since` on rejects, or resolves silently, when given together."""

    one: str
    other: str
    why: str
    since: tuple[int, int] = (0, 0)


CLASHES = (
    Clash("--gpus-per-node", "--gres=gpu", "sbatch(1): GPUs can be requested in one form only"),
    Clash("--gpus-per-task", "--gres=gpu", "sbatch(1): GPUs can be requested in one form only"),
    Clash("--mem", "--mem-per-cpu", "sbatch(1): memory can be requested in one form only"),
    Clash("--mem", "--mem-per-gpu", "sbatch(1): memory can be requested in one form only"),
    Clash("--exclusive", "--oversubscribe", "Slurm 23.02 and later reject them together", (23, 2)),
    Clash("--cpus-per-task", "--cpus-per-gpu", "Slurm 23.11 and later reject them together", (23, 11)),
)

NEEDS = {
    "--prefer": (22, 5),
    "--tres-per-task": (23, 2),
    "--network=disable_rdzv_get": (23, 11),
    "--stepmgr": (24, 5),
}
"""Option -> the first Slurm version that has it."""


def version(text: str | None) -> tuple[int, int] | None:
    """`23.11.4` -> (23, 11); None if the text is None or not a version."""
    match = re.match(r"(\d+)\.(\d+)", text or "")
    return (int(match[1]), int(match[2])) if match else None


def check_rules(draft: DirectiveList) -> None:
    """Report mutually exclusive options, and options that the site's Slurm is too old for."""
    here = version(draft.site.version)
    for clash in CLASHES:
        # An unknown version counts as the newest: all clashes apply, and all options exist.
        if (here or (99, 0)) >= clash.since and _has(draft, clash.one) and _has(draft, clash.other):
            draft.problem(f"`{clash.one}` and `{clash.other}` cannot be combined", clash.why, "options")
    for option, first in NEEDS.items():
        if here and here < first and _has(draft, option):
            draft.problem(
                f"`{option}` needs Slurm {first[0]}.{first[1]:02d}, and this site has {draft.site.version}",
                "remove it here",
                "options",
            )


def _has(draft: DirectiveList, option: str) -> bool:
    """True if the draft has this option (`--mem` does not match `--mem-per-cpu`)."""
    begins = (option,) if "=" in option else (f"{option}=", f"{option} ")
    return any(text == option or text.startswith(begins) for text in draft.texts())
