"""`#PBS` lines of a request for OpenPBS and PBS Professional: chunks of `select`, or job-wide totals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from dlrun.model.origin import Origin
from dlrun.model.plan import Directive, Request
from dlrun.model.site import SchedulerSite
from dlrun.model.units import Bytes, many
from dlrun.schedulers.directive_list import INDEX, DirectiveList, with_gpu_type
from dlrun.schedulers.pbs import directives as pbs
from dlrun.schedulers.pbs.options import OPENPBS

LONGEST_NAME = 230
"""PBS_MAXJOBNAME in pbs_ifl.h."""

_WHEN = {"ok": "afterok", "any": "afterany", "not_ok": "afternotok"}


def directives(
    request: Request, site: SchedulerSite, output: str, origins: Mapping[str, Origin] | None = None
) -> Sequence[Directive]:
    """The `#PBS` lines of a request; raises InvalidFile for what PBS or the site cannot do."""
    request = with_gpu_type(request, site, ":")
    draft = DirectiveList(pbs.PREFIX, request, site, origins or {})
    pbs.refuse(draft, "exclude", "gpu_type", "node_local")
    pbs.add_name(draft, LONGEST_NAME)
    pbs.add_shell_and_output(draft, output.replace(INDEX, "^array_index^"))
    draft.add("-k doe", "written directly while the job runs, so that it can be followed")
    _rerun(draft)
    if request.spare_nodes:
        because = "a failed node does not end the job: there are spare nodes"
        draft.add("-W tolerate_node_failures=all", because, "spare_nodes")
    if site.arithmetic == "whole_job":
        _totals(draft)
    else:
        _chunks(draft)
    pbs.add_who(draft)
    pbs.add_when(draft, _dependencies(request))
    pbs.add_options(draft, OPENPBS)
    return draft.finish()


def _rerun(draft: DirectiveList) -> None:
    """`-r` and `-J`; PBS rejects arrays that are not rerunnable."""
    points = draft.request.array
    if points:
        draft.add("-r y", "PBS accepts only rerunnable arrays", "requeue")
        draft.add(array(points, draft.request.at_once), f"{points} points of the sweep", "array")
    elif draft.request.requeue:
        draft.add("-r y", "the scheduler may requeue the job", "requeue")
    else:
        draft.add("-r n", "`on_failure` has no requeues", "requeue")


def array(points: int, at_once: int | None) -> str:
    """`-J 0-99%4`: an array of tasks, at most `at_once` running. PBS requires X < Y in `-J X-Y`: one task is `-J 0-1:2`."""
    return "-J 0-1:2" if points == 1 else f"-J 0-{points - 1}" + (f"%{at_once}" if at_once else "")


def _chunks(draft: DirectiveList) -> None:
    """`select` with one chunk per node, and `place`; without `place=scatter` PBS packs chunks on one node."""
    request, place = draft.request, draft.site.place
    # Equal chunks are written as one, `3:ncpus=8`; only the last node may have fewer ranks.
    counts = pbs.ranks_on(request)
    kinds = {ranks: _chunk(draft, ranks) for ranks in counts}
    resources = [kinds[ranks] for ranks in counts]
    if hosts := pbs.hosts(draft):
        resources = [f":host={host}{chunk}" for host, chunk in zip(hosts, resources, strict=True)]
    chunks = "+".join(f"{len(list(same))}{chunk}" for chunk, same in groupby(resources))
    draft.add(
        f"-l {pbs.quote(f'select={chunks}')}",
        f"{many(request.nodes, 'node')} with {many(request.ranks, 'rank')}",
        "nodes",
    )
    # `exclhost` keeps other jobs off the whole host; `excl` only off the vnodes of the chunks.
    if request.exclusive and not draft.site.exclusive and "excl" not in place:
        place += ":exclhost"
    draft.add(f"-l {pbs.quote(f'place={place}')}", "PBS packs chunks on one node by default", "exclusive")


def _chunk(draft: DirectiveList, ranks: int) -> str:
    """The resources of a node with `ranks` ranks: `:ncpus=8:mpiprocs=4`."""
    request, site = draft.request, draft.site
    words: list[str] = []
    cpus = request.cpus_per_node or (request.cpus_per_rank or 0) * ranks
    if cpus and site.cpus != "none":
        words.append(f"ncpus={cpus}")
    words.append(f"mpiprocs={ranks}")
    # Without `ompthreads` PBS sets OMP_NUM_THREADS of the job to `ncpus`.
    if request.threads:
        words.append(f"ompthreads={request.threads}")
    if pbs.asks_gpus(draft):
        words.append(f"ngpus={request.gpus_per_node}")
    if memory := pbs.memory(draft):
        words.append(f"mem={pbs.size(memory)}")
    if request.constraint:
        words.append(request.constraint)
    return "".join(f":{word}" for word in words)


def _totals(draft: DirectiveList) -> None:
    """Job-wide resources, as NCI (Gadi) requests them; without chunks, nodes cannot differ."""
    request, site, nodes = draft.request, draft.site, draft.request.nodes
    pbs.refuse(draft, "hosts", "constraint")
    # The last node may have fewer ranks: cores per node count for all nodes, cores per rank for the ranks that exist.
    because = f"of the whole job: {many(nodes, 'node')}"
    cpus = (request.cpus_per_node or 0) * nodes or (request.cpus_per_rank or 0) * request.ranks
    if cpus and site.cpus != "none":
        draft.add(f"-l ncpus={cpus}", f"{site.cpus} {because}", "cpus_per_node")
    if pbs.asks_gpus(draft):
        draft.add(f"-l ngpus={(request.gpus_per_node or 0) * nodes}", f"GPUs {because}", "gpus_per_node")
    if memory := pbs.memory(draft):
        draft.add(f"-l mem={pbs.size(Bytes(memory * nodes))}", f"memory {because}", "memory_per_node")


def _dependencies(request: Request) -> list[str]:
    """Dependencies such as `afterok:1:2`, in the order of the spec."""
    groups = groupby(request.after, key=lambda dependency: dependency.when)
    return [":".join((_WHEN[when], *(dependency.job_id for dependency in group))) for when, group in groups]
