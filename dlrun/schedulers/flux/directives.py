"""`# flux:` lines of a request; `flux batch` splits them nearly as a shell does (RFC 36), so values are quoted by `_quoted`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from dlrun.model.hostlist import fold
from dlrun.model.origin import Origin
from dlrun.model.plan import Directive, Request
from dlrun.model.site import SchedulerSite
from dlrun.model.units import many
from dlrun.schedulers.directive_list import DirectiveList, with_gpu_type
from dlrun.schedulers.flux.ids import each, recorded
from dlrun.schedulers.flux.options import OPTIONS

PREFIX = "# flux:"

_WHEN = {"ok": "afterok", "any": "afterany", "not_ok": "afternotok"}
_LACKS = {
    "qos": (
        "QOS",
        "leave out resources.qos; `resources.options: {urgency: …}` sets the order of your own jobs",
    ),
    "reservation": (
        "reservations",
        "leave out resources.reservation; in Flux a reservation is a queue: set resources.partition",
    ),
    "gpu_type": (
        "GPU types",
        "select nodes by resources.constraint in place of the type, or name what selects them under scheduler.gpu_types",
    ),
    "node_local": ("requests for storage", "leave out storage.node_local.request in the site profile"),
}


_QUOTES = re.compile(r"['\"\\]")
_SPECIAL = re.compile(r"[^\w@%+=:,./-]", re.ASCII)


def _quoted(value: str) -> str:
    """A value as one word of a directive.

    To Flux three quotes in a row, also of both kinds, delimit a string of many lines, and inside single quotes it takes a
    backslash as an escape: with either in the value, each special character has its own backslash.
    """
    if not _QUOTES.search(value):
        return shlex.quote(value)
    return _SPECIAL.sub(lambda match: f"\\{match[0]}", value)


def directives(
    request: Request, site: SchedulerSite, output: str, origins: Mapping[str, Origin] | None = None
) -> Sequence[Directive]:
    """The `# flux:` lines of a request; raises InvalidFile for what Flux or the site cannot do."""
    request = with_gpu_type(request, site, " and ")
    draft = DirectiveList(PREFIX, request, site, origins or {})
    draft.lacks("Flux", _LACKS)
    draft.add(f"--job-name={_quoted(request.name)}", "name of the spec", "name")
    _output(draft, output)
    _layout(draft)
    _memory(draft)
    _who(draft)
    _where(draft)
    _when(draft)
    draft.add_raw(site.directives, "set for every job of this site", "scheduler.directives")
    draft.add_options(OPTIONS, _quoted)
    draft.add_raw(request.directives, "from the spec or site profile", "directives")
    return draft.finish()


def array(points: int, at_once: int | None) -> str:
    """Empty: Flux has no arrays; `bash lib/flux.sh` submits each point as a job."""
    return ""


def _output(draft: DirectiveList, output: str) -> None:
    """The log's path; for a sweep lib/flux.sh adds one to each point at submission."""
    # Flux expands `{{id}}` and the like in the path of the log.
    if "{{" in output:
        draft.problem(
            f"Flux cannot write to `{output}`, because `{{{{` begins a placeholder", "use a path without it"
        )
    if not draft.request.array:
        draft.add(f"--output={_quoted(output)}", "standard output and error, in the job directory")
    draft.add_if_set("requeue", "-o output.mode=append", "a requeued job keeps its earlier log")


def _layout(draft: DirectiveList) -> None:
    """Whole nodes, or one slot per rank: outside exclusive jobs Flux allocates only the resources of the slots."""
    request, site = draft.request, draft.site
    draft.add(f"--nodes={request.nodes}", many(request.nodes, "node"), "nodes")
    if request.nodes > 1:
        draft.add(
            "--broker-opts=-Sbroker.quorum=1",
            "job.sh itself waits for the other nodes, and names those that it cannot reach; Flux would wait until the walltime",
            "nodes",
        )
    if request.exclusive or site.exclusive:
        draft.add("--exclusive", "whole nodes for this job, with all their cores and GPUs", "exclusive")
        return
    draft.add(f"--nslots={request.ranks}", f"{many(request.ranks, 'rank')}, a slot for each", "ranks")
    # Cores without a number per rank come from the request per node, in equal shares.
    share = request.cpus_per_rank or (request.cpus_per_node or 0) // request.ranks_per_node
    if share and site.cpus != "none":
        draft.add(f"--cores-per-slot={share}", "cores of each rank", "cpus_per_rank")
    gpus = request.gpus_per_node
    if not gpus or site.gpus == "none" or draft.refused("gpus_per_node"):
        return
    # Flux requests GPUs per slot, and there is a slot per rank.
    if gpus % request.ranks_per_node:
        draft.problem(
            f"{gpus} GPUs cannot be shared evenly by {request.ranks_per_node} ranks",
            "Flux allocates GPUs by slot: use whole nodes (resources.exclusive), or as many ranks as divide the GPUs",
            "gpus_per_node",
        )
    else:
        draft.add(
            f"--gpus-per-slot={gpus // request.ranks_per_node}",
            f"{many(gpus, 'GPU')} on each node",
            "gpus_per_node",
        )


def _memory(draft: DirectiveList) -> None:
    if draft.request.memory_per_node is not None and not (draft.request.exclusive or draft.site.exclusive):
        draft.problem(
            "Flux does not allocate memory",
            "leave out resources.memory_per_node, or set resources.exclusive to get whole nodes",
            "memory_per_node",
        )


def _who(draft: DirectiveList) -> None:
    draft.add_if_set("partition", "--queue={}", "the queue", _quoted)
    draft.add_account("--bank", "the bank to charge", _quoted)


def _where(draft: DirectiveList) -> None:
    draft.add_if_set("constraint", "--requires={}", "required node properties", _quoted)
    draft.add_if_set("hosts", "--requires=host:{}", "only these hosts", fold)
    draft.add_if_set("exclude", "--requires=-host:{}", "excluded hosts", fold)


def _when(draft: DirectiveList) -> None:
    draft.add_if_set("walltime", "--time-limit={}s", "the walltime, {}", lambda time: str(int(time)))
    for dependency in draft.request.after:
        # A sweep's id lists the ids of its points, each of which is a job of Flux.
        for job_id in each([dependency.job_id]):
            draft.add(
                f"--dependency={_WHEN[dependency.when]}:{recorded(job_id) or job_id}", "dependencies", "after"
            )
    draft.add_if_set("hold", "--urgency=0", "submitted on hold")
