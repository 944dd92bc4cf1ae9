"""OpenPBS and PBS Professional: qsub, qstat, qdel, qhold and qrls."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Literal

from dlrun.errors import Invalid
from dlrun.model.job import JobStatus, State
from dlrun.model.origin import Origin
from dlrun.model.plan import Directive, Request
from dlrun.model.site import SchedulerSite
from dlrun.model.text import Shell, digits
from dlrun.model.units import Bytes, many
from dlrun.resources import beside
from dlrun.schedulers.dates import seconds
from dlrun.schedulers.directive_list import INDEX, DirectiveList, with_gpu_type
from dlrun.schedulers.pbs import acceptance, accounting, clients, components, directives as pbs, qstat
from dlrun.schedulers.pbs.directives import PREFIX
from dlrun.schedulers.pbs.options import OPENPBS, OPENPBS as OPTIONS
from dlrun.schedulers.pbs.states import job_status
from dlrun.schedulers.protocol import Allocation, Probe
from dlrun.schedulers.queue_rules import QueueRules
from dlrun.schedulers.refusals import every_line_matches
from dlrun.schedulers.taken import Taken

__all__ = ["OPTIONS", "PREFIX", "accounting"]

NAME = "openpbs"
ID = clients.ID
submitted, task_id, REFUSALS = clients.submitted, clients.task_id, clients.REFUSALS
cluster, identify, identified = clients.cluster, clients.identify, clients.identified
cancel, hold, release = clients.cancel, clients.hold, clients.release
CLIENT = "qsub"
# The task id `12[3].server` becomes the array id `12[].server`: dlrun records one id for all tasks.
JOB_ID = Shell(r"${PBS_JOBID/\[*\]/[]}")
ARRAY_INDEX = Shell("${PBS_ARRAY_INDEX:-}")
LIBRARY: tuple[str, ...] = (beside(__file__, "pbs"), "resubmit")
RESTARTS = Shell(clients.restarts("run_count"))
HOSTS = components.HOSTS
IDS_NAME_CLUSTER = True
WRITES_IN_PLACE = True
POINTS_INSIDE = True
ROLES_INSIDE = True
COMPONENTS = components.COMPONENTS
# qsub(1B): in `-o` this stands for the index of a subjob, and the path that qsub makes begins with the directory's.
PATTERNS = r"\^array_index\^|\n"
FINDER = beside(__file__, "find_pbs")
CLUSTER_KEY: Literal["pbs_server"] = "pbs_server"
GPUS: Literal["ngpus"] = "ngpus"
ACCOUNT_OPTION = "-A"
ALLOCATION = Allocation(
    start="qsub -I",
    job_id="PBS_JOBID",
    hosts="PBS_NODEFILE",
    size="-l select={nodes}:ncpus={node_cpus}:mpiprocs={ranks}",
    gpus=":ngpus={gpus}",
)
ACCEPTANCE = acceptance
NO_EXCLUDE = (
    "PBS has no option to exclude nodes (OpenPBS's design proposal `node_filter` is stalled), so the job itself does not "
    "use such a node if it is granted"
)
"""pbs_resources(7B), `select`; project wiki, pages 51249415 and 52108208 ("users submit jobs with a node-filter"; stalled)."""

_NODE_LOST = (State.NODE_FAILED, "PBS lost the connection to a node")
_NODE_RESTARTED = (State.NODE_FAILED, "PBS was restarted on the node")
_HOOK = (State.CANCELLED_BY_ADMIN, "deleted by a hook of the site")
_CPUS = (State.FAILED, "it used more CPUs than requested")
_CODES = {
    -1: (State.FAILED, "it could not be started"),
    -2: (State.FAILED, "it could not be started"),
    -3: (State.FAILED, "it could not be started after all retries"),
    -4: _NODE_RESTARTED,
    -5: _NODE_RESTARTED,
    -6: _NODE_RESTARTED,
    -10: (State.FAILED, "the user or group is unknown on the node"),
    -14: _NODE_LOST,
    -17: _HOOK,
    -19: _HOOK,
    -20: (State.NODE_FAILED, "PBS lost the connection to its first node"),
    -23: (State.FAILED, "it has no Kerberos credentials"),
    -24: _CPUS,
    -25: _CPUS,
    -26: (State.OUT_OF_MEMORY, "it used more virtual memory than requested"),
    -27: (State.OUT_OF_MEMORY, "it used more memory than requested"),
    -28: (State.TIMED_OUT, "its CPU time limit was exceeded"),
    -29: (State.TIMED_OUT, "the walltime was exceeded"),
    -30: (State.NODE_FAILED, "a node could not join the job"),
}
"""JOB_EXEC_* in job.h of OpenPBS 23.06."""


def submit(
    script: str, *, check: bool = False, points: int | None = None, at_once: int | None = None
) -> Sequence[str]:
    """Arguments that submit a script; raises Invalid for a check, which qsub does not have (see `ACCEPTANCE`)."""
    if check:
        raise Invalid("qsub cannot check a job without submitting it")
    return ("qsub", script)


def queue(job_ids: Sequence[str]) -> Sequence[str]:
    """One qstat for any number of jobs, with one entry per array task."""
    return ("qstat", "-t", "-f", *_form(job_ids), *job_ids)


def _form(job_ids: Sequence[str]) -> Sequence[str]:
    """JSON for one job, text for several: OpenPBS up to 23.06 prints only the first of several jobs as JSON."""
    return () if len(job_ids) > 1 else ("-F", "json")


def history(job_ids: Sequence[str]) -> Sequence[str] | None:
    """One qstat for ended jobs (`-x`), where the server keeps a job history."""
    return ("qstat", "-x", "-t", "-f", *_form(job_ids), *job_ids)


def parse_queue(stdout: str) -> Sequence[JobStatus]:
    """The jobs in the output of qstat. Pending tasks of a held array are held, which PBS reports only for the array."""
    read = qstat.from_json if stdout.lstrip().startswith("{") else qstat.from_text
    statuses = [job_status(identity, attributes, _CODES) for identity, attributes in read(stdout).items()]
    held = {status.job_id for status in statuses if status.task is None and status.state is State.HELD}
    return [
        replace(status, state=State.HELD)
        if status.job_id in held and status.state is State.PENDING
        else status
        for status in statuses
    ]


parse_history = parse_queue


def queue_rules() -> Sequence[str]:
    """qstat of all queues; preemption is the scheduler's own setting, which it does not show."""
    return ("qstat", "-Q", "-f")


def parse_queue_rules(stdout: str) -> list[QueueRules]:
    """The longest walltime of each queue."""
    queues = qstat.from_text(re.sub(r"^Queue: *", "Job Id: ", stdout, flags=re.MULTILINE))
    return [
        QueueRules(name=name, most=seconds(attributes.get("resources_max.walltime", "")))
        for name, attributes in queues.items()
    ]


def taken(job_id: str) -> Sequence[str]:
    """qstat, which shows a job after all hooks."""
    return ("qstat", "-f", job_id)


def parse_taken(stdout: str) -> Taken | None:
    """Queue, walltime, number of nodes and account of the first job."""
    for attributes in qstat.from_text(stdout).values():
        count = attributes.get("resource_list.nodect", "")
        return Taken(
            partition=attributes.get("queue"),
            walltime=seconds(attributes.get("resource_list.walltime", "")),
            nodes=int(count) if digits(count) else None,
            account=attributes.get("account_name"),
        )
    return None


def probe(asked: Probe) -> Sequence[str]:
    """qsub of a chunk with one core, and a GPU if requested."""
    chunk = (
        "select=1:ncpus=1" + (":ngpus=1" if asked.gpu else "") + (f":host={asked.host}" if asked.host else "")
    )
    return ["qsub", "-N", "dlrun-probe", "-j", "oe", "-o", asked.log, "-l", chunk,
            "-l", f"walltime=00:{asked.minutes:02}:00"]  # fmt: skip


def unknown_jobs(stderr: str, code: int) -> bool:
    """True if a query failed only because the jobs are unknown or there is no job history."""
    return every_line_matches(
        r"Unknown Job Id|Job has finished|not configured to maintain job history", stderr
    )


# `#PBS` lines of a request for OpenPBS and PBS Professional: chunks of `select`, or job-wide totals.
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
    draft.outlive_nodes("-W tolerate_node_failures=all")
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
    if draft.request.array:
        draft.add("-r y", "PBS accepts only rerunnable arrays", "requeue")
        draft.add_array(array)
    else:
        draft.add_requeue("-r y", "-r n")


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
