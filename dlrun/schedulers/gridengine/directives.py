"""`#$` lines of a request, one option per line (qsub(1)); consumables are counted per slot.

Grid Engine does not allocate nodes but slots of a parallel environment, whose allocation rule sets the slots per node. The
site's environment therefore needs a fixed number (`allocation_rule 8`), of which dlrun requests a multiple.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial

from dlrun.model.origin import Origin
from dlrun.model.plan import Directive, Request
from dlrun.model.site import SchedulerSite
from dlrun.model.units import many
from dlrun.schedulers.directive_list import INDEX, DirectiveList, with_gpu_type
from dlrun.schedulers.gridengine.options import OPTIONS

PREFIX = "#$"

LONGEST_NAME = 230

_LACKS = {
    "qos": ("QOS", "leave out resources.qos"),
    "gpu_type": (
        "GPU types",
        "select nodes by resources.constraint in place of the type, or name what selects them under scheduler.gpu_types",
    ),
    "node_local": ("requests for storage", "leave out storage.node_local.request in the site profile"),
}


def directives(
    request: Request, site: SchedulerSite, output: str, origins: Mapping[str, Origin] | None = None
) -> Sequence[Directive]:
    """The `#$` lines of a request; raises InvalidFile for what Grid Engine or the site cannot do."""
    request = with_gpu_type(request, site, ",")
    draft = DirectiveList(PREFIX, request, site, origins or {})
    draft.lacks("Grid Engine", _LACKS)
    _name(draft)
    draft.add("-S /bin/bash", "the script is bash, whatever the login shell is")
    draft.add("-cwd", "the job runs in the directory from which it is submitted")
    _output(draft, output)
    draft.add_requeue("-r y", "-r n")
    draft.add_array(array)
    _slots(draft)
    _who(draft)
    _where(draft)
    _when(draft)
    draft.add_raw(site.directives, "set for every job of this site", "scheduler.directives")
    _options(draft)
    draft.add_raw(request.directives, "from the spec or site profile", "directives")
    return draft.finish()


def array(points: int, at_once: int | None) -> str:
    """`-t 1-100 -tc 4`: an array of tasks, numbered from 1 (Grid Engine rejects 0), at most `at_once` running."""
    return f"-t 1-{points}" + (f" -tc {at_once}" if at_once else "")


def _name(draft: DirectiveList) -> None:
    """The name without blanks and characters that qsub rejects; it must not begin with a digit."""
    name = re.sub(r"[^A-Za-z0-9_+.-]", "_", draft.request.name)
    name = (name if name[:1].isalpha() else f"j{name}")[:LONGEST_NAME]
    same = name == draft.request.name
    because = "name of the spec" if same else "name of the spec, in the form that Grid Engine accepts"
    draft.add(f"-N {name}", because, "name")


def _output(draft: DirectiveList, output: str) -> None:
    """The log's path, unquoted: a quoted path extends to the end of the line, and `$` is expanded."""
    # $TASK_ID counts from 1 and dlrun's points from 0, so the script of an array task opens its log itself.
    path = "logs-of-points" if INDEX in output else output
    if re.search(r"[\s$:\"'\\]", path):
        draft.problem(f"Grid Engine cannot write to `{path}`", "use a path of plain letters")
    draft.add("-o /dev/null" if INDEX in output else f"-o {path}", "standard output, in the job directory")
    draft.add("-j y", "standard error, in the same file")


def _slots(draft: DirectiveList) -> None:
    """The parallel environment with the slots of all nodes, then the consumables."""
    request, site, complexes = draft.request, draft.site, draft.site.complexes
    share = request.cpus_per_node or (request.cpus_per_rank or 1) * request.ranks_per_node
    # Where the site does not count CPUs, a slot is a rank.
    slots = share if site.cpus != "none" else request.ranks_per_node
    environment = (site.parallel_environment or "").replace("{slots}", str(slots))
    if complexes.nodes:
        draft.add(
            f"-l {complexes.nodes}={request.nodes}", f"{many(request.nodes, 'node')} of this kind", "nodes"
        )
    elif environment:
        draft.add(
            f"-pe {environment} {slots * request.nodes}",
            f"{many(slots, 'slot')} on each of {many(request.nodes, 'node')}",
            "nodes",
        )
        # Without a reservation, smaller jobs take free slots first and a job of several whole nodes may never start.
        draft.add("-R y", "slots are reserved for the job until enough are free")
    elif request.nodes > 1 or slots > 1:
        draft.problem(
            "the site profile sets no parallel environment, and without one a job gets a single slot",
            "set scheduler.parallel_environment; `qconf -spl` lists them, and `{slots}` in it stands for a node's slots",
            "nodes",
        )
    _counted(draft, slots)
    if request.exclusive and not site.exclusive:
        if complexes.exclusive:
            draft.add(f"-l {complexes.exclusive}=true", "whole nodes for this job", "exclusive")
        else:
            draft.problem(
                "the site profile sets no complex for whole nodes",
                "set scheduler.complexes.exclusive, or leave out resources.exclusive",
                "exclusive",
            )


def _counted(draft: DirectiveList, slots: int) -> None:
    """GPUs and memory, per slot or per host as in the site profile."""
    request, complexes = draft.request, draft.site.complexes
    # A consumable is multiplied by the job's slots on the host unless the complex is counted by HOST or JOB.
    each = slots if complexes.gpus_counted == "slot" else 1
    gpus = request.gpus_per_node
    if gpus and draft.site.gpus != "none" and not draft.refused("gpus_per_node"):
        if not complexes.gpu:
            draft.problem(
                "the site profile sets no complex for GPUs",
                "set scheduler.complexes.gpu; `qconf -sc` lists them",
                "gpus_per_node",
            )
        elif gpus % each:
            draft.problem(
                f"{gpus} GPUs cannot be divided by {each} slots",
                "this site counts GPUs per slot: request a number of GPUs that is a multiple of the slots of a node",
                "gpus_per_node",
            )
        else:
            draft.add(
                f"-l {complexes.gpu}={gpus // each}", f"{many(gpus, 'GPU')} on each node", "gpus_per_node"
            )
    memory = request.memory_per_node
    if memory == "all":
        draft.problem(
            "Grid Engine cannot allocate all memory of a node",
            "set a size for resources.memory_per_node",
            "memory_per_node",
        )
    elif memory is not None and not draft.refused("memory_per_node"):
        if complexes.memory:
            # Rounded down, so that the slots of a node together never exceed the memory of the request.
            size = max(1, memory.mebibytes() // (slots if complexes.memory_counted == "slot" else 1))
            draft.add(f"-l {complexes.memory}={size}M", f"{memory} on each node", "memory_per_node")
        else:
            draft.problem(
                "the site profile sets no complex for memory",
                "set scheduler.complexes.memory, or leave out resources.memory_per_node",
                "memory_per_node",
            )


def _who(draft: DirectiveList) -> None:
    draft.add_if_set("partition", "-q {}", "the queue", partial(_plain, draft, "partition"))
    if not draft.refused("account"):
        draft.add_account("-P", "the project to charge", partial(_plain, draft, "account"))
    draft.add_if_set(
        "reservation", "-ar {}", "the advance reservation", partial(_plain, draft, "reservation")
    )


def _where(draft: DirectiveList) -> None:
    draft.add_if_set(
        "constraint", "-l {}", "required complexes of the nodes", partial(_plain, draft, "constraint")
    )
    draft.add_if_set("hosts", "-l hostname={}", "only these hosts", "|".join)
    draft.add_if_set("exclude", "-l hostname=!({})", "excluded hosts", "|".join)


def _when(draft: DirectiveList) -> None:
    request = draft.request
    draft.add_if_set("walltime", "-l h_rt={}", "the walltime, {}", lambda time: str(int(time)))
    if any(dependency.when != "any" for dependency in request.after):
        draft.problem(
            "Grid Engine waits for the end of a job, whether it succeeds or fails",
            "write `when: any` under `after`, and let the program check the results of the first job",
            "after",
        )
    if request.after:
        draft.add(
            f"-hold_jid {','.join(dependency.job_id for dependency in request.after)}",
            "dependencies",
            "after",
        )
    draft.add_if_set("hold", "-h", "submitted on hold")


def _plain(draft: DirectiveList, field: str, value: str) -> str:
    """A value without blanks and quotes: qsub splits directives at blanks, and its quoting differs from a shell's."""
    if re.search(r"[\s\"'\\]", value):
        draft.problem(
            f"Grid Engine does not accept `{value}` in a directive",
            "use a word without blanks and quotes",
            field,
        )
    return value


def _options(draft: DirectiveList) -> None:
    """`-x value` for options of qsub (one letter, or `OPTIONS.long`); `-l name=value` for complexes."""
    for bare, value in draft.user_options(OPTIONS):
        word = _plain(draft, "options", value)
        of_qsub = len(bare) == 1 or bare in OPTIONS.long
        text = f"-{bare} {word}".rstrip() if of_qsub else f"-l {bare}={word}"
        draft.add(text, "from resources.options", "options")
