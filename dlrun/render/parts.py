"""Which parts of the bash library `templates/lib` a plan's pages use: each is sourced only where it is needed."""

from __future__ import annotations

from dlrun import backends
from dlrun.model.plan import Plan
from dlrun.model.text import Shell

_JOB = ("job", "processes", "failures", "shell")
"""What `job.sh` begins with, and what that sources in turn."""


def library(plan: Plan) -> dict[str, tuple[str, ...]]:
    """The files of `lib/` in the job directory, by name without `.sh`, each with the parts that it is made of.

    What ranks use is one file: on a shared file system every rank opens each of them.
    """
    files: dict[str, tuple[str, ...]] = {name: (name,) for name in (*_JOB, *job_parts(plan), "processes")}
    files["rank"] = ("rank", *rank_parts(plan))
    if stages(plan):
        files["stage"] = ("stage",)
    if "addresses" in rank_parts(plan) or plan.node_checks is not None:
        files["addresses"] = ("addresses",)
    return files


def job_parts(plan: Plan) -> tuple[str, ...]:
    """What `job.sh` uses beside its own functions; the order is that in which they act at the end."""
    ending = plan.checkpoint is not None or bool(plan.requeue_on) or plan.results is not None
    led = any(role.identity is not None for role in plan.roles)
    address = plan.rendezvous.address.code
    used = {
        "endings": ending,
        "hang": plan.hang is not None,
        "nodes": plan.node_checks is not None,
        "lost-nodes": asks_nodes(plan),
        "addresses": "$(dlrun_address_of" in address or "$DLRUN_MASTER_IP" in expansions(plan),
        "staging": stages(plan),
        "ports": True,
        "start": led,
    }
    names = [name for name, is_used in used.items() if is_used]
    scheduler, launcher = backends.scheduler(plan.scheduler), backends.launcher(plan.launch.name)
    return tuple(dict.fromkeys([*scheduler.LIBRARY, *names, *launcher.LIBRARY]))


def rank_parts(plan: Plan) -> tuple[str, ...]:
    """What `rank.sh` uses beside its own functions."""
    code, container = expansions(plan), plan.environment.container
    checks = plan.verify != "off" or plan.hang is not None
    used = {
        "bind": plan.binding.mode in ("plan", "job") or checks,
        "checks": checks,
        "usage": plan.usage,
        "processes": plan.hang is not None,
        "addresses": any(name in code for name in ("$(dlrun_", "$DLRUN_OWN_ADDRESS")),
        "agent": any(role.identity is not None for role in plan.roles),
        "container": container is not None and container.runtime == "apptainer",
    }
    return tuple(name for name, is_used in used.items() if is_used)


def stages(plan: Plan) -> bool:
    """True if nodes run `stage.sh`: there is data to stage in, or there are results to stage out."""
    copied = any(data.strategy != "in_place" for data in plan.data)
    return copied or plan.environment.staged is not None or plan.results is not None


def binds_apart(plan: Plan) -> bool:
    """True if ranks that a framework's agent starts are bound, by `bind.sh`."""
    return plan.binding.placement is not None and "/bind.sh" in expansions(plan)


def asks_nodes(plan: Plan) -> bool:
    """True if the job itself asks each node, after a failure, whether it is still there.

    Not where something else reports it: the scheduler, for its own steps, or checks of the nodes.
    """
    if plan.request.nodes == 1 or plan.node_checks is not None:
        return False
    steps = backends.launcher(plan.launch.name).STEPS
    return not (steps and backends.scheduler(plan.scheduler).TELLS_OF_LOST_NODES)


def expansions(plan: Plan) -> str:
    """The code of every shell expansion in the roles: it shows which functions they need."""
    texts = [t for role in plan.roles for t in (*role.argv, *role.lead, role.ready) if t is not None]
    texts += [v.value for role in plan.roles for v in role.variables]
    texts += [t for point in plan.points for t in point.argv]
    return "\n".join(p.code for t in texts for p in t.parts if isinstance(p, Shell))
