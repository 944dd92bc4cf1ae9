"""`#PBS` lines common to OpenPBS and Torque: name, output, queue, project, walltime, dependencies, hold."""

from __future__ import annotations

import re
from collections.abc import Iterable

from dlrun.model.plan import Request
from dlrun.model.units import Bytes, Duration
from dlrun.schedulers.directive_list import DirectiveList
from dlrun.schedulers.options import OptionTable

PREFIX = "#PBS"

_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./&|*!\[\]()^~#-]+")
# Of two directives for one resource PBS silently uses only one; `-V` would copy the environment of the submitting shell.
_RAW_OWN = re.compile(r"-(?:l\s*(?:select|nodes|place|walltime)=|N\b|J\b|q\b|V\b)")


def quote(value: str) -> str:
    """Quote a value for qsub's tokenizer, which has no escape character inside quotes (make_argv in qsub.c)."""
    if _PLAIN.fullmatch(value):
        return value
    pieces = re.findall(r"[^\"]+|\"+", value)
    return "".join(f"'{piece}'" if piece.startswith('"') else f'"{piece}"' for piece in pieces)


def add_name(draft: DirectiveList, longest: int) -> None:
    """Add the job's name: a letter, then letters, digits and `-_+.`, up to `longest` characters."""
    name = re.sub(r"[^A-Za-z0-9_+.-]", "_", draft.request.name)
    name = (name if name[:1].isascii() and name[:1].isalpha() else f"j{name}")[:longest]
    same = name == draft.request.name
    draft.add(
        f"-N {name}", "name of the spec" if same else "name of the spec, in the form that PBS accepts", "name"
    )


def add_shell_and_output(draft: DirectiveList, output: str) -> None:
    """Run the script by bash, with both streams in the file `output`."""
    draft.add("-S /bin/bash", "the script is bash, whatever the login shell is")
    # In `-o` PBS reads `HOST:PATH`: a relative path with a colon would be a file on another host.
    if not output.isascii() or (":" in output and not output.startswith("/")):
        draft.problem(f"PBS cannot write to `{output}`", "use a path in plain ASCII, without a colon")
    draft.add(f"-o {quote(output)}", "standard output, in the job directory")
    draft.add("-j oe", "standard error, in the same file")


def add_who(draft: DirectiveList) -> None:
    """The queue and the project; a reservation of PBS is submitted to as a queue."""
    request = draft.request
    if request.partition and request.reservation:
        draft.problem(
            "a PBS job is submitted either to a queue or to a reservation",
            "leave out resources.partition",
            "reservation",
        )
    if queue := request.reservation or request.partition:
        because = "the queue of the reservation" if request.reservation else "the queue"
        draft.add(f"-q {quote(queue)}", because, "reservation" if request.reservation else "partition")
    draft.add_account("-A", "the account to charge", quote)
    if request.qos:
        draft.problem(
            f"PBS does not support QOS, but the spec sets `{request.qos}`", "leave out resources.qos", "qos"
        )


def add_when(draft: DirectiveList, dependencies: Iterable[str]) -> None:
    """Walltime, dependencies and hold; `dependencies` in the syntax of this PBS."""
    draft.add_if_set("walltime", "-l walltime={}", "the walltime, {}", Duration.clock)
    if conditions := ",".join(dependencies):
        draft.add(f"-W depend={conditions}", "dependencies", "after")
    draft.add_if_set("hold", "-h", "submitted on hold")


def add_options(draft: DirectiveList, options: OptionTable) -> None:
    """The site's directives, the user's options (`-l name=value`, or `-x value`) and directives."""
    _check_raw(draft, draft.site.directives, "scheduler.directives")
    draft.add_raw(draft.site.directives, "set for every job of this site", "scheduler.directives")
    for bare, value in draft.user_options(options):
        if len(bare) == 1:
            draft.add(f"-{bare} {quote(value)}" if value else f"-{bare}", "from resources.options", "options")
        else:
            draft.add(f"-l {quote(f'{bare}={value}')}", "from resources.options", "options")
    _check_raw(draft, draft.request.directives, "directives")
    draft.add_raw(draft.request.directives, "from the spec or site profile", "directives")


def _check_raw(draft: DirectiveList, directives: Iterable[str], field: str) -> None:
    for text in directives:
        if _RAW_OWN.match(text.strip()):
            draft.problem(
                f"the directive `{text}` is already written by dlrun; PBS uses only one of the two",
                "use the key for it: name, sweep, or a key of resources; for the place statement scheduler.place",
                field,
            )


def refuse(draft: DirectiveList, *fields: str) -> None:
    """Report each of these fields that the request sets and this PBS has no option for."""
    for field in fields:
        # The site's directives request node-local storage; with spare nodes the job itself avoids excluded nodes.
        stated = field == "node_local" and bool(draft.request.directives)
        left_out = field == "exclude" and draft.request.spare_nodes > 0
        if getattr(draft.request, field) and not (stated or left_out):
            draft.problem(f"{_NAMES[draft.site.type]} cannot express `{field}`", _INSTEAD[field], field)


_NAMES = {"openpbs": "PBS", "torque": "Torque"}
_INSTEAD = {
    "exclude": "set resources.spare_nodes, so that the job can do without such a node if it is granted; or set "
    "resources.hosts",
    "gpu_type": "select nodes by resources.constraint in place of the type, or name what selects them under scheduler.gpu_types",
    "node_local": "set storage.node_local.request in the site profile",
    "constraint": "leave out resources.constraint; the queue selects the nodes here",
    "reservation": "write the directive that your centre documents for the reservation under scheduler.directives",
    "hosts": "leave out resources.hosts; this site counts resources of the whole job",
}


def ranks_on(request: Request) -> list[int]:
    """Number of ranks on each node, in order: equal on all nodes but possibly the last."""
    most = request.ranks_per_node
    return [max(0, min(most, request.ranks - node * most)) for node in range(request.nodes)]


def hosts(draft: DirectiveList) -> tuple[str, ...]:
    """The requested hosts, one per node; empty if none are requested."""
    named, nodes = draft.request.hosts, draft.request.nodes
    if named and len(named) != nodes:
        draft.problem(
            f"{len(named)} hosts are listed for {nodes} nodes", "name exactly resources.nodes hosts", "hosts"
        )
        return ()
    return named


def asks_gpus(draft: DirectiveList) -> bool:
    """True if GPUs are requested; reports a profile whose `scheduler.gpus` is a form of another scheduler."""
    form = draft.site.gpus
    if not draft.request.gpus_per_node or form == "none" or draft.refused("gpus_per_node"):
        return False
    if form in {"gres", "gpus_per_task"}:
        draft.problem(
            f"`{form}` is Slurm's option to request GPUs",
            "set scheduler.gpus to ngpus or none",
            "scheduler.gpus",
        )
    return True


def memory(draft: DirectiveList) -> Bytes | None:
    """Memory to request on each node, in bytes; None for no request."""
    if draft.refused("memory_per_node"):
        return None
    if draft.request.memory_per_node == "all":
        draft.problem(
            "PBS cannot allocate all memory of a node",
            "set a size for resources.memory_per_node",
            "memory_per_node",
        )
        return None
    return draft.request.memory_per_node


def size(amount: Bytes) -> str:
    """A size in the units of PBS, powers of 1024: `512mb`, `96gb`."""
    mebibytes = max(1, amount.mebibytes())
    return f"{mebibytes}mb" if mebibytes % 1024 else f"{mebibytes // 1024}gb"
