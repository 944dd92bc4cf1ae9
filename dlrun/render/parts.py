"""The parts of the bash library `templates/lib` that a plan's scripts need; others are not copied into the job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dlrun import backends
from dlrun.errors import Invalid
from dlrun.fabrics import process_managers
from dlrun.model.data import Snapshot
from dlrun.model.plan import DataPlan, NodeChecks, Plan
from dlrun.model.spec import Watch
from dlrun.model.text import Shell, Text
from dlrun.plan.command.pool import STEP
from dlrun.plan.environment import HUB_CACHE, in_hub_cache
from dlrun.plan.launch_line import PLAIN_SSH
from dlrun.plan.trackers.table import OFFLINE_DIRECTORY
from dlrun.render.shell import join
from dlrun.schedulers.allocation import is_inside
from dlrun.schedulers.protocol import Components

_JOB = ("job", "processes", "failures", "records", "shell", "ports", "python", "code")
"""The parts that every `job.sh` needs: `job` sources the others."""
END_SIGNAL = "USR2"
"""The signal at which the job of a role without a checkpoint ends its ranks and copies their results."""


def library(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Files of `lib/` in the job directory (without `.sh`) -> the parts that each consists of, as `job_parts` names them.

    The parts for ranks are one file, because every rank opens it on the shared file system. Raises Invalid for two parts
    of one name.
    """
    of_job = (*_JOB, *job_parts(plan), "standby")
    files: dict[str, tuple[str, ...]] = {_name(part): (part,) for part in of_job}
    if plan.role_jobs is None:
        files |= _beside_job(plan)
    for part in of_job:
        if "/" in part and (files[_name(part)] != (part,) or _name(part) in of_job):
            raise Invalid(
                f"a job of site `{plan.site}` would have two parts of the library with the name `{_name(part)}`",
                help=f"rename `{part}.sh` in the package that has this scheduler or launcher",
            )
    return files


def _beside_job(plan: Plan) -> dict[str, tuple[str, ...]]:
    """The files of `library` that other scripts than `job.sh` source."""
    files: dict[str, tuple[str, ...]] = {"rank": ("rank", *rank_parts(plan))}
    if stages(plan) or keeps(plan):
        files["stage"] = ("stage",)
    if keeps(plan):
        files["seed"] = ("seed",)
    if pulls(plan):
        files["pull"] = ("pull",)
    if "addresses" in rank_parts(plan) or asks_first(plan):
        files["addresses"] = ("addresses",)
    if plan.pool is not None and STEP in plan.pool.start:
        files["step"], files["ssh"] = ("step",), ("ssh",)
    if plan.pool is not None and plan.pool.mps_share:
        files["mps"] = ("mps",)
    return files


def _name(part: str) -> str:
    """The name that a part has in `lib/` of the job: of an absolute path, the last component."""
    return part.rpartition("/")[2]


def sourced(parts: Iterable[str]) -> str:
    """The words of `dlrun_source` for these parts."""
    return join([_name(part) for part in parts])


def job_parts(plan: Plan) -> tuple[str, ...]:
    """The parts for `job.sh`, in the order in which they act at the end of the job.

    Those of `templates/lib` by name, those that stand beside a back end by absolute path without `.sh`.
    """
    if plan.role_jobs is not None:
        kinds = components(plan)
        of_kinds = kinds.library if kinds is not None else ()
        spare = ["nodes"] if plan.node_checks is not None else []
        watched = ["first-node"] if outlives_first_node(plan) else []
        of_scheduler = backends.scheduler(plan.scheduler).LIBRARY
        return (*of_scheduler, *of_kinds, *spare, *watched, "coordinator", "roles")
    ending = plan.checkpoint is not None or bool(plan.requeue_on) or plan.results is not None
    # Ranks that an agent starts get the environment of the job as text, which `start` writes.
    led = any(role.identity is not None for role in plan.roles)
    address = plan.rendezvous.address.code
    used = {
        "endings": ending,
        "hang": plan.hang is not None,
        "nodes": plan.node_checks is not None,
        "lost-nodes": asks_nodes(plan),
        "addresses": "$(dlrun_address_of" in address or "$DLRUN_MASTER_IP" in expansions(plan),
        "staging": stages(plan),
        "start": led,
        "coordinator": plan.pool is not None,
        "pool": plan.pool is not None,
        "first-node": outlives_first_node(plan),
        "roles": plan.role is not None,
        "snapshot": isinstance(plan.code, Snapshot),
        "hub": bool(hub_sets(plan)),
        "images": pulls(plan),
        "caches": keeps(plan),
        "compiled": keeps(plan),
        "offline": any(variable.name == OFFLINE_DIRECTORY for variable in plan.track),
    }
    names = [name for name, is_used in used.items() if is_used]
    scheduler, launcher = backends.scheduler(plan.scheduler), backends.launcher(plan.launch.name)
    return tuple(dict.fromkeys([*scheduler.LIBRARY, *_allocation_parts(plan), *names, *launcher.LIBRARY]))


def hub_sets(plan: Plan) -> list[DataPlan]:
    """The data sets that are repositories in the job's own cache of the hub."""
    if not any(v.rule == HUB_CACHE for v in plan.variables):
        return []
    return [data for data in plan.data if in_hub_cache(data)]


def rank_parts(plan: Plan) -> tuple[str, ...]:
    """The parts for `rank.sh`."""
    code, container = expansions(plan), plan.environment.container
    checks = plan.verify != "off" or plan.hang is not None
    mounts = any(data.strategy == "image" for data in plan.data)
    shares_node = plan.pool is not None and not starts_points_here(plan)
    used = {
        "left": True,
        "locate": True,
        "socket": True,
        "place": shares_node or plan.gpu_share is not None or bool(plan.cpu_shares),
        "bind": plan.binding.mode in ("plan", "job") or checks,
        "divide": plan.binding.mode in ("plan", "job"),
        "gpus": plan.binding.mode in ("plan", "job"),
        "checks": checks,
        "python": plan.usage or mounts,
        "mount": mounts,
        "usage": plan.usage,
        "warning": plan.checkpoint is not None,
        "world": world_check(plan) is not None,
        "processes": plan.hang is not None or world_check(plan) is not None,
        "addresses": any(name in code for name in ("$(dlrun_", "$DLRUN_OWN_ADDRESS")),
        "agent": any(role.identity is not None for role in plan.roles),
        "caches": plan.caches is not None,
        "track": bool(plan.track),
        "container": container is not None and container.runtime == "apptainer",
    }
    return tuple(name for name, is_used in used.items() if is_used)


def components(plan: Plan) -> Components | None:
    """How a job has nodes of several types; None: it has nodes of one."""
    several = any(role.component is not None for role in plan.each_role)
    return backends.scheduler(plan.scheduler).COMPONENTS if several else None


def hosts(plan: Plan) -> str:
    """The command that prints the hosts of a run: those chosen in an allocation, for a point inside a job its own, else all."""
    if plan.pool is not None:
        return "dlrun_this_host" if plan.pool.nodes_per_point == 1 else "dlrun_point_hosts"
    if plan.role is not None:
        return "dlrun_role_hosts"
    if (kinds := components(plan)) is not None:
        return kinds.hosts
    if plan.request.hosts and is_inside(plan.scheduler):
        return join(("printf", r"%s\n", *plan.request.hosts))
    return backends.scheduler(plan.scheduler).HOSTS


def pool_line(plan: Plan) -> list[object]:
    """The words of the line that runs the points of a sweep inside the job; empty without them."""
    if plan.pool is None:
        return []
    wall, saves, repeats = int(plan.request.walltime or 0), plan.checkpoint, "timed_out" in plan.requeue_on
    numbers = (len(plan.points), plan.pool.places, plan.request.at_once or 0, wall, before_end(plan))
    times = plan.requeue if repeats or "node_failed" in plan.requeue_on else 0
    ending = (saves.carrier if saves is not None else "-", str(times))
    how = requeue_of_job(plan) if repeats else None
    return ["dlrun_pool", *map(str, numbers), *ending, how or "-", *plan.pool.start]


def before_end(plan: Plan) -> int:
    """Seconds before the end of the walltime at which what runs saves its state, or is ended; 0: it is not.

    With those in which results are copied.
    """
    copies = int(plan.results.before_end) if plan.results is not None else 0
    if plan.checkpoint is not None:
        return int(plan.checkpoint.before_end) + copies
    return time_to_end(plan) + copies if copies or "timed_out" in plan.requeue_on else 0


def time_to_end(plan: Plan) -> int:
    """Seconds for the ranks to end without a signal, and for the job to be requeued: 30, at most a quarter of the walltime."""
    return min(30, int(plan.request.walltime or 0) // 4)


def requeue(plan: Plan) -> str:
    """The command that starts a run again; for a point inside a job a file that pool.py sees."""
    if plan.pool is not None:
        return 'touch "$DLRUN_RUN_DIR/.again"'
    return backends.scheduler(plan.scheduler).REQUEUE or _resubmission(plan)


def requeue_of_job(plan: Plan) -> str:
    """The shell text by which a program that runs parts of the job starts the job again."""
    scheduler = backends.scheduler(plan.scheduler)
    parts = (*scheduler.LIBRARY, *(["nodes"] if plan.node_checks is not None else []))
    sources = f'source "$DLRUN_JOB_DIR/lib/job.sh"; dlrun_source {sourced(parts)}'
    if scheduler.REQUEUE is None:
        return f"{sources}; {_resubmission(plan)}"
    if plan.node_checks is None or scheduler.EXCLUDE_REQUEUED is None:
        return scheduler.REQUEUE
    # The scheduler may end this shell, too, as soon as the job is back in the queue.
    excluded = join([scheduler.EXCLUDE_REQUEUED, ",".join(plan.request.exclude)])
    return f"{sources}; trap '' TERM; {scheduler.REQUEUE} && {{ {excluded}; _dlrun_event requeued || true; }}"


def _resubmission(plan: Plan) -> str:
    return f"dlrun_resubmit {join(backends.scheduler(plan.scheduler).submit('job.sh'))}"


def world_check(plan: Plan) -> Watch | None:
    """The action where ranks that find one another by MPI are alone: that of `verify` or `fabric_check`; None: not checked."""
    by_mpi = process_managers.MPI.intersection(backends.framework(plan.framework).LIBRARIES)
    controlled = any(
        v.name == "HOROVOD_CONTROLLER" and v.value == Text.of("mpi")
        for role in plan.roles
        for v in role.variables
    )
    of_fabric = plan.fabric_check.action if plan.fabric_check is not None else "off"
    if plan.request.ranks == 1 or not (by_mpi or controlled) or (plan.verify, of_fabric) == ("off", "off"):
        return None
    return "fail" if "fail" in (plan.verify, of_fabric) else "warn"


def stages(plan: Plan) -> bool:
    """True if nodes run `stage.sh`, to stage data in or results out."""
    copied = any(data.strategy != "in_place" for data in plan.data)
    return copied or plan.environment.staged is not None or plan.results is not None


_EACH = {"node": "", "rank": "@", "run": "%"}


def caches_line(plan: Plan) -> list[object]:
    """The words of the line that makes the directories of compilers' caches; empty without them."""
    wanted, container = plan.caches, plan.environment.container
    if wanted is None:
        return []
    image = "yes" if container is not None and container.runtime == "apptainer" else "no"
    each = [
        f"{cache.variable}={cache.directory}{_EACH[cache.each]}{':' if cache.unless else ''}{cache.unless}"
        f"{'+' if cache.switch else ''}{cache.switch}"
        for cache in wanted.caches
    ]
    return ["dlrun_caches", wanted.base, caches_key(plan), image, *each]


def caches_key(plan: Plan) -> Text:
    """The subdirectory of this environment, with the digest of its image, which is known once that was pulled."""
    container, of_tools = plan.environment.container, plan.caches.key if plan.caches else ""
    if pulls(plan):
        return Text.of(f"{of_tools}-" if of_tools else "", Shell("$DLRUN_IMAGE_KEY"))
    digest = container.source.digest if container is not None and container.source is not None else None
    return Text.of("-".join(filter(None, (of_tools, (digest or "").partition(":")[2][:12]))))


def keeps(plan: Plan) -> bool:
    """True if what compilers have compiled comes from the user's store, and goes there."""
    return plan.caches is not None and plan.caches.keep and plan.role_jobs is None


def pulls(plan: Plan) -> bool:
    """True if the first node of a job pulls the image of its container."""
    container = plan.environment.container
    return plan.role_jobs is None and container is not None and container.in_job


def asks_first(plan: Plan) -> bool:
    """True if the first node may be another one than that of `job.sh`, which then asks it for its address and free ports."""
    within = backends.scheduler(plan.scheduler).ALLOCATION if is_inside(plan.scheduler) else None
    elsewhere = plan.node_checks is not None or starts_points_here(plan)
    return elsewhere or (within is not None and bool(within.library))


def starts_points_here(plan: Plan) -> bool:
    """True if the node of the job's script runs the job.sh of each point, whose ranks are on several nodes."""
    return plan.pool is not None and plan.pool.nodes_per_point > 1


def reach(plan: Plan) -> Sequence[Text]:
    """The command by which a point reaches its first host, which is appended; empty where a part of lib/ does it."""
    if not starts_points_here(plan) or _allocation_parts(plan):
        return ()
    return command_on_host(plan)


def command_on_host(plan: Plan) -> Sequence[Text]:
    """The command that runs a program on the host that is appended: that of the launcher, else ssh."""
    started: Sequence[Text] = next((role.launch for role in plan.roles if role.launch), ())
    return backends.launcher(plan.launch.name).command(started) or PLAIN_SSH


def _allocation_parts(plan: Plan) -> tuple[str, ...]:
    """The parts of lib/ for steps on some of the nodes of points on several."""
    held = backends.scheduler(plan.scheduler).ALLOCATION if starts_points_here(plan) else None
    return tuple(held.library) if held is not None else ()


def binds_apart(plan: Plan) -> bool:
    """True if ranks started by a framework's agent are bound by `bind.sh`."""
    return plan.binding.placement is not None and "/bind.sh" in expansions(plan)


def outlives_first_node(plan: Plan) -> bool:
    """True if the job continues after the loss of the node that runs its script, until another node ends it."""
    stays = plan.node_checks is not None or (plan.pool is not None and plan.pool.nodes > 1)
    return stays and backends.scheduler(plan.scheduler).OUTLIVES_FIRST_NODE


def patience(checks: NodeChecks) -> int:
    """Seconds that the checks of the nodes may take: two minutes, and one for each command of the site."""
    return 120 + 60 * len(checks.commands)


def asks_nodes(plan: Plan) -> bool:
    """True if the job itself tests after a failure which nodes are still alive.

    False where the scheduler reports lost nodes (for its own steps), or node checks do.
    """
    if plan.request.nodes == 1 or plan.node_checks is not None:
        return False
    steps = backends.launcher(plan.launch.name).STEPS
    return not (steps and backends.scheduler(plan.scheduler).REPORTS_LOST_NODES)


def expansions(plan: Plan) -> str:
    """The code of all shell expansions in the roles, searched for the functions that it needs."""
    texts = [t for role in plan.roles for t in (*role.argv, *role.lead, role.ready) if t is not None]
    texts += [v.value for role in plan.roles for v in role.variables]
    texts += [t for point in plan.points for t in point.argv]
    return "\n".join(p.code for t in texts for p in t.parts if isinstance(p, Shell))
