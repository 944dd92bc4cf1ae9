"""The names of all files that a job of a plan may write in its job directory while it runs.

`dlrun clean` removes these names and no others, so each is exact: a role's name and a rank's number, never a pattern. It
follows the bash library (templates/lib) and the node programs; a name that is missing here is kept and shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dlrun import backends
from dlrun.model.data import Snapshot
from dlrun.model.job import role_directory
from dlrun.model.plan import Plan, RoleJobs
from dlrun.model.record import record
from dlrun.plan import log_names
from dlrun.render.parts import expansions, hub_sets, job_parts, keeps, outlives_first_node, pulls, stages

Name = str | tuple[str, int, int, str]
"""A path (of a directory with `/` at the end), or the numbered paths PREFIX + FIRST … LAST - 1 + SUFFIX.

`{host}` in a path means each host that the job has checked.
"""

_MARKED = ".dlrun"
"""The mark in directories that `_dlrun_create_empty` makes (templates/lib/records.sh)."""
_CHECKED = (
    "hosts",
    "hosts-first",
    "log",
    "port",
    "port.new",
    "done",
    "done.new",
    "report.json",
    "report.json.new",
)
"""The files of a checked node (templates/lib/nodes.sh, node/checks/node_checks.py)."""
_OF_COORDINATOR = ("state.json", ".state.pool", ".cancel", ".again", ".asked", "logs/", "logs/job.log")
_OF_ROLE = ("role.json", ".role.json.new")
"""What roles.py writes beside the files of a role's own job."""
_MODULES = ("dlrun_data",)
_PYTHONS = (6, 30)
"""Minor versions of Python 3 whose compiled files may appear."""
_OPTIMISED = ("", ".opt-1", ".opt-2")
_PUBLISHED = {"check_network.py": "check-port", "library_check.py": "library-port"}
"""Node programs whose rank 0 writes an address for the others -> its file (node/checks/check_network.py `publish`)."""


@record(frozen=True, slots=True, kw_only=True)
class WrittenNames:
    """The names in the job directory, and those in the directory of each run; points: of a sweep, None without one."""

    job: tuple[Name, ...] = ()
    runs: tuple[Name, ...] = ()
    points: int | None = None


def written_names(plan: Plan) -> WrittenNames:
    """The names that a job of this plan may write."""
    if plan.role_jobs is not None:
        work = ("work/",) if isinstance(plan.code, Snapshot) else ()
        runs = (*_OF_COORDINATOR, *_of_spare_nodes(plan), *work)
        return WrittenNames(job=(*_in_job(plan), *_of_roles(plan.role_jobs)), runs=runs)
    return WrittenNames(job=tuple(_in_job(plan)), runs=tuple(_in_run(plan)), points=len(plan.points) or None)


def _of_roles(roles: RoleJobs) -> Iterator[Name]:
    """The names in the directory of each role."""
    yield "roles/"
    for role in roles.jobs:
        place = role_directory(role.name)
        yield f"{place}/"
        for name in (*_in_job(role.plan), *_in_run(role.plan), *_OF_ROLE):
            yield f"{place}/{name}" if isinstance(name, str) else (f"{place}/{name[0]}", *name[1:])


def expand(names: Sequence[Name], hosts: Sequence[str] = ()) -> Iterator[str]:
    """Each path by itself; hosts: for `{host}`."""
    for name in names:
        if not isinstance(name, str):
            prefix, first, last, suffix = name
            yield from (f"{prefix}{number}{suffix}" for number in range(first, last))
        elif "{host}" in name:
            yield from (name.replace("{host}", host) for host in hosts)
        else:
            yield name


def _in_job(plan: Plan) -> Iterator[Name]:
    scheduler, points = backends.scheduler(plan.scheduler), len(plan.points)
    if points:
        yield "points/"
        yield ("points/", 0, points, "/")
    if plan.pool is not None:
        yield from ("state.json", ".state.pool", ".again", "logs/", "logs/job.log")
        yield from (".alive", ".state.first")
    if scheduler.ON_THIS_MACHINE:
        yield "supervisor.log"
    else:
        yield from ("job-id", ".followed", ".restarts")
        # Grid Engine numbers the tasks of arrays from 1.
        yield (".restarts-", 1, points + 1, "")
    if plan.node_checks is not None:
        yield "bad-nodes"
    if pulls(plan):
        yield from ("image.json", "image.lock")
    for module in _MODULES if any(data.strategy != "in_place" for data in plan.data) else ():
        yield "python/__pycache__/"
        yield from ((f"python/__pycache__/{module}.cpython-3", *_PYTHONS, f"{end}.pyc") for end in _OPTIMISED)


def _in_run(plan: Plan) -> Iterator[Name]:
    yield from ("state.json", "hosts", "hosts-first", "rendezvous", "logs/", "logs/job.log")
    yield from _marked("failures")
    yield from _marked("ended")
    yield from _marked("placement")  # its files have names of nodes, and are recognised by content
    yield from ("failures/node-0", "failures/fabric", "failures/fabric.new")
    yield from _logs(plan)
    for role in plan.roles:
        yield (f"failures/{role.name}-", 0, role.count, "")
        yield (f"ended/{role.name}-", 0, role.count, "")
        if "$(dlrun_hostfile" in expansions(plan):
            yield (f"hostfile-{role.name}-", 0, role.count, "")
        yield from (name for file in role.files for name in _published(file))
        if "$DLRUN_RUN_DIR/flatfile-" in expansions(plan):
            yield ("flatfile-", 0, role.count, "")
    if pulls(plan):
        yield "image"
    if plan.usage:
        yield "usage/"
    if plan.code != "off":
        yield "code-starts"
    if isinstance(plan.code, Snapshot):
        yield "work/"
    yield from _of_hub(plan)
    if backends.scheduler(plan.scheduler).ON_THIS_MACHINE:
        yield from (".cancel", ".again", ".state.supervisor")
    if plan.pool is not None:
        yield from (".cancel", ".again", ".state.pool")
    if "start" in job_parts(plan):
        yield "environment"
    yield from _of_hang(plan)
    yield from _of_node_checks(plan)
    yield from _of_staging(plan)


def _of_hub(plan: Plan) -> Iterator[Name]:
    """The cache of the hub's library (lib/hub.sh), which a job that is killed leaves."""
    if sets := hub_sets(plan):
        yield "hub/"
    for data in sets:
        assert data.hub is not None  # noqa: S101 - that is what they are
        place, parts = f"hub/{data.hub.folder}", data.hub.revision.split("/")
        yield from (f"{place}/", f"{place}/snapshots/", f"{place}/snapshots/{data.hub.commit}")
        yield from (f"{place}/refs/{''.join(f'{part}/' for part in parts[:n])}" for n in range(len(parts)))
        yield from (f"{place}/refs/main", f"{place}/refs/{data.hub.revision}")


def _published(program: str) -> Iterator[Name]:
    if program in _PUBLISHED:
        yield from (_PUBLISHED[program], f"{_PUBLISHED[program]}.new")


def _marked(directory: str) -> Iterator[Name]:
    yield from (f"{directory}/", f"{directory}/{_MARKED}")


def _logs(plan: Plan) -> Iterator[Name]:
    yield ("logs/", 0, log_names.directories(plan.roles), "/")
    for role in plan.roles:
        if plan.logs == "node":
            first_ranks = range(0, role.count, role.per_node)
            yield from (f"logs/{log_names.name(role, rank, plan.logs)}" for rank in first_ranks)
            continue
        for begin in range(0, role.count, log_names.PER_DIRECTORY):
            path = f"logs/{log_names.name(role, begin, plan.logs)}"
            end = min(begin + log_names.PER_DIRECTORY, role.count)
            yield (path.removesuffix(f"{begin}.log"), begin, end, ".log")


def _of_hang(plan: Plan) -> Iterator[Name]:
    if plan.hang is None:
        return
    yield from _marked("idle")
    yield from _marked("stacks")
    yield from ("idle/dump", "idle/abort")
    for role in plan.roles:
        yield from ((f"idle/{role.name}-", 0, role.count, end) for end in ("", ".ended"))
        yield from ((f"stacks/{role.name}-", 0, role.count, end) for end in (".txt", ".txt.new"))


def _of_spare_nodes(plan: Plan) -> Iterator[Name]:
    """The names in the directory of a job with roles (node/role_nodes.py)."""
    if plan.node_checks is None:
        return
    yield from (*_marked("failures"), "failures/node-0")
    yield from _of_node_checks(plan)


def _of_node_checks(plan: Plan) -> Iterator[Name]:
    if plan.node_checks is None:
        return
    yield from ("hosts-granted", "nodes/hosts", "nodes/best", "nodes/{host}/")
    if outlives_first_node(plan):
        yield from (".alive", ".watched", ".state.first")
    yield from _marked("nodes")
    yield from (f"nodes/{{host}}/{name}" for name in _CHECKED)


def _of_staging(plan: Plan) -> Iterator[Name]:
    nodes = plan.request.nodes
    if stages(plan) or (keeps(plan) and nodes > 1):
        yield "stage-secret"
    if stages(plan) or keeps(plan):
        yield from (("logs/stage-", 0, nodes, suffix) for suffix in (".log", ".jsonl"))
    if keeps(plan):
        yield from ("compiled", "not-seeded")
        yield ("not-seeded-", 0, nodes, "")
    if not stages(plan):
        return
    yield "stage-directory"
    yield from ((prefix, 0, nodes, "") for prefix in ("failures/stage-", "foreign-"))
    staged = [data.name for data in plan.data]
    if plan.environment.staged is not None:
        staged.append(plan.environment.staged.name)
    yield from (f"in-place-{name}" for name in staged)
    yield from _marked("early")
    yield from _marked("kept")
    yield "kept/none"
    yield from ((prefix, 0, nodes, "") for prefix in ("early/", "kept/", "kept/notice-", "kept/new-"))
