"""The parts of the bash library `templates/lib` that a plan's scripts need; others are not copied into the job."""

from __future__ import annotations

from dlrun import backends
from dlrun.fabrics import process_managers
from dlrun.model.data import Snapshot
from dlrun.model.plan import Plan
from dlrun.model.spec import Watch
from dlrun.model.text import Shell, Text
from dlrun.render.shell import join
from dlrun.schedulers.allocation import is_inside

_JOB = ("job", "processes", "failures", "records", "shell", "ports", "python", "code")
"""The parts that every `job.sh` needs: `job` sources the others."""


def library(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Files of `lib/` in the job directory (without `.sh`) -> the parts that each consists of.

    The parts for ranks are one file, because every rank opens it on the shared file system.
    """
    files: dict[str, tuple[str, ...]] = {name: (name,) for name in (*_JOB, *job_parts(plan), "standby")}
    files["rank"] = ("rank", *rank_parts(plan))
    if stages(plan):
        files["stage"] = ("stage",)
    if "addresses" in rank_parts(plan) or asks_first(plan):
        files["addresses"] = ("addresses",)
    return files


def job_parts(plan: Plan) -> tuple[str, ...]:
    """The parts for `job.sh`, in the order in which they act at the end of the job."""
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
        "pool": plan.pool is not None,
        "snapshot": isinstance(plan.code, Snapshot),
    }
    names = [name for name, is_used in used.items() if is_used]
    scheduler, launcher = backends.scheduler(plan.scheduler), backends.launcher(plan.launch.name)
    return tuple(dict.fromkeys([*scheduler.LIBRARY, *names, *launcher.LIBRARY]))


def rank_parts(plan: Plan) -> tuple[str, ...]:
    """The parts for `rank.sh`."""
    code, container = expansions(plan), plan.environment.container
    checks = plan.verify != "off" or plan.hang is not None
    used = {
        "locate": True,
        "place": plan.pool is not None,
        "bind": plan.binding.mode in ("plan", "job") or checks,
        "divide": plan.binding.mode in ("plan", "job"),
        "gpus": plan.binding.mode in ("plan", "job"),
        "checks": checks,
        "python": plan.usage,
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


def hosts(plan: Plan) -> str:
    """The command that prints the hosts of a run: those chosen in an allocation, for a point inside a job its own, else all."""
    if plan.pool is not None:
        return "dlrun_this_host"
    if plan.request.hosts and is_inside(plan.scheduler):
        return join(("printf", r"%s\n", *plan.request.hosts))
    return backends.scheduler(plan.scheduler).HOSTS


def pool_line(plan: Plan) -> list[object]:
    """The words of the line that runs the points of a sweep inside the job; empty without them."""
    if plan.pool is None:
        return []
    wall, saves, repeats = int(plan.request.walltime or 0), plan.checkpoint, "timed_out" in plan.requeue_on
    # Without a signal 30 s for the ranks to end, as in other jobs, but at most a quarter of a short walltime.
    before = int(saves.before_end) if saves is not None else min(30, wall // 4) if repeats else 0
    numbers = (len(plan.points), plan.pool.places, plan.request.at_once or 0, wall, before)
    ending = (saves.carrier if saves is not None else "-", str(plan.requeue if repeats else 0))
    how = backends.scheduler(plan.scheduler).REQUEUE if repeats else None
    return ["dlrun_pool", *map(str, numbers), *ending, how or "-", *plan.pool.start]


def requeue(plan: Plan) -> str:
    """The command that starts a run again; for a point inside a job a file that pool.py sees."""
    if plan.pool is not None:
        return 'touch "$DLRUN_RUN_DIR/.again"'
    scheduler = backends.scheduler(plan.scheduler)
    return scheduler.REQUEUE or f"dlrun_resubmit {join(scheduler.submit('job.sh'))}"


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


def asks_first(plan: Plan) -> bool:
    """True if the first node may be another one than that of `job.sh`, which then asks it for its address and free ports."""
    within = backends.scheduler(plan.scheduler).ALLOCATION if is_inside(plan.scheduler) else None
    return plan.node_checks is not None or (within is not None and bool(within.library))


def binds_apart(plan: Plan) -> bool:
    """True if ranks started by a framework's agent are bound by `bind.sh`."""
    return plan.binding.placement is not None and "/bind.sh" in expansions(plan)


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
