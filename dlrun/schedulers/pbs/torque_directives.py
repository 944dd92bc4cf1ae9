"""`#PBS` lines of a request for Torque: `-l nodes=N:ppn=P`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from dlrun.model.origin import Origin
from dlrun.model.plan import Dependency, Directive, Request
from dlrun.model.site import SchedulerSite
from dlrun.model.units import Bytes, many
from dlrun.schedulers.directive_list import INDEX, DirectiveList, with_gpu_type
from dlrun.schedulers.pbs import directives as pbs
from dlrun.schedulers.pbs.options import TORQUE

LONGEST_NAME = 256
"""PBS_MAXJOBNAMELEN in Torque's ck_job_name.c."""

_WHEN = {"ok": "afterok", "any": "afterany", "not_ok": "afternotok"}


def directives(
    request: Request, site: SchedulerSite, output: str, origins: Mapping[str, Origin] | None = None
) -> Sequence[Directive]:
    """The `#PBS` lines of a request; raises InvalidFile for what Torque or the site cannot do.

    Torque itself appends the index of an array task to the log's path, and copies the log there when the job ends.
    """
    request = with_gpu_type(request, site, ":")
    draft = DirectiveList(pbs.PREFIX, request, site, origins or {})
    pbs.refuse(draft, "exclude", "gpu_type", "node_local", "reservation")
    pbs.add_name(draft, LONGEST_NAME)
    pbs.add_shell_and_output(draft, output.rpartition("/")[2] if INDEX in output else output)
    draft.add_requeue("-r y", "-r n")
    draft.add_array(array)
    _nodes(draft)
    if request.exclusive and not site.exclusive:
        draft.add("-l naccesspolicy=singlejob", "whole nodes for this job", "exclusive")
    if memory := pbs.memory(draft):
        # `mem` of Torque is the total of the job; `pmem` would be a limit of each process.
        total = pbs.size(Bytes(memory * request.nodes))
        draft.add(
            f"-l mem={total}", f"memory of the whole job: {many(request.nodes, 'node')}", "memory_per_node"
        )
    pbs.add_who(draft)
    pbs.add_when(draft, [_dependency(dependency) for dependency in request.after])
    pbs.add_options(draft, TORQUE)
    return draft.finish()


def array(points: int, at_once: int | None) -> str:
    """`-t 0-99%4`: an array of tasks, at most `at_once` running."""
    return f"-t 0-{points - 1}" + (f"%{at_once}" if at_once else "")


def _nodes(draft: DirectiveList) -> None:
    """`-l nodes=`: `ppn` is the number of CPUs, or of ranks where the site does not count CPUs."""
    request, site = draft.request, draft.site
    hosts = pbs.hosts(draft)
    gpus = f":gpus={request.gpus_per_node}" if pbs.asks_gpus(draft) else ""
    features = f":{request.constraint}" if request.constraint else ""
    chunks = []
    for ranks in pbs.ranks_on(request):
        cpus = request.cpus_per_node or (request.cpus_per_rank or 1) * ranks
        chunks.append(f":ppn={cpus if site.cpus != 'none' else ranks}{gpus}{features}")
    if hosts:
        text = "+".join(host + chunk for host, chunk in zip(hosts, chunks, strict=True))
    else:
        text = "+".join(f"{len(list(same))}{chunk}" for chunk, same in groupby(chunks))
    draft.add(
        f"-l {pbs.quote(f'nodes={text}')}",
        f"{many(request.nodes, 'node')} with {many(request.ranks, 'rank')}",
        "nodes",
    )


def _dependency(dependency: Dependency) -> str:
    """A dependency; on an array it has another keyword, `afterokarray:12[].server`."""
    array = "array" if "[]" in dependency.job_id else ""
    return f"{_WHEN[dependency.when]}{array}:{dependency.job_id}"
