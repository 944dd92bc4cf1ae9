"""What a job with roles cannot have yet: keys of the whole job, schedulers, launchers, and shares of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dlrun import backends
from dlrun.model.plan import Plan
from dlrun.model.site import Site
from dlrun.model.spec import Spec
from dlrun.model.units import Bytes
from dlrun.plan.decisions import Ledger

CODE = "DLR143"


def check(spec: Spec, site: Site, ledger: Ledger) -> None:
    """Add a problem for each key of the whole job, and for a scheduler, that jobs with roles do not support yet."""
    scheduler = backends.scheduler(site.scheduler.type)
    if not scheduler.ROLES_INSIDE:
        able = [f"`{name}`" for name in backends.SCHEDULERS if _has_roles(name)]
        ledger.problem(
            CODE,
            f"{site.scheduler.type} cannot run several roles in one job yet",
            "roles",
            help=f"submit a job for each program, or select a site with {', '.join(able[:-1])} or {able[-1]}",
        )
    sweep = spec.sweep
    unknown = {
        "sweep": bool(sweep.list or sweep.zip or sweep.grid),
    }
    for key in (key for key, is_set in unknown.items() if is_set):
        ledger.problem(
            CODE,
            f"`{key}` cannot be used yet in a job with roles",
            key,
            help="remove it, and submit a job for each point (`--set`), or the program as a job of its own",
        )
    if spec.hang is not None:
        ledger.problem(
            CODE,
            "`hang` of a whole job would end it when one of its servers has nothing to do",
            "hang",
            help="write it in the role that trains",
        )


def check_plans(
    plans: Mapping[str, Plan], on_nodes: Mapping[str, Sequence[str]], site: Site, ledger: Ledger
) -> None:
    """Add a problem where a role's launcher or share of a node cannot be had inside one allocation."""
    one_node = is_one_node(site)
    for names in on_nodes.values():
        _check_sharing({name: plans[name] for name in names} if len(names) > 1 else {}, one_node, ledger)
    widest = max(plans, key=lambda name: width(plans[name]), default="")
    for name, plan in plans.items():
        launcher = backends.launcher(plan.launch.name)
        if not launcher.CHOOSES_NODES and not one_node:
            ledger.problem(
                CODE,
                f"launcher `{launcher.NAME}` starts ranks on all nodes of an allocation, not on those of role `{name}`",
                f"roles.{name}.launcher",
                f"roles.{name}:",
                help="use another `launcher`, such as `srun` or `ssh`",
            )
        if not (plan.request.exclusive or one_node) and width(plan)[1] > width(plans[widest])[1]:
            ledger.problem(
                CODE,
                f"role `{name}` uses more cores of a node than `{widest}`, which uses more GPUs",
                f"roles.{name}.cpus_per_rank",
                f"roles.{name}:",
                help="add `exclusive: true` to `resources`: then each role has whole nodes",
            )


def _check_sharing(plans: Mapping[str, Plan], one_node: bool, ledger: Ledger) -> None:
    """Add a problem where roles of the same nodes could not be kept apart there."""
    for name, plan in plans.items():
        if not (plan.request.exclusive or one_node):
            ledger.problem(
                CODE,
                f"role `{name}` shares a node of which the job may get a part only",
                f"roles.{name}.beside",
                "resources.exclusive",
                "roles",
                help="add `exclusive: true` to `resources`, or give each role nodes of its own",
            )
            return
        if plan.binding.mode in ("job", "scheduler"):
            ledger.problem(
                CODE,
                f"ranks of role `{name}` would take cores of the other roles on its node: {plan.binding.because}",
                f"roles.{name}.placement.bind",
                "placement.bind",
                f"roles.{name}:",
                help="remove `placement.bind`: each role then gets cores of its own",
            )


def check_memory(
    plans: Mapping[str, Plan], on_nodes: Mapping[str, Sequence[str]], spec: Spec, ledger: Ledger
) -> None:
    """Add a problem where roles of a node may use more memory than the job requests, or where theirs cannot be limited."""
    wanted = spec.resources.memory_per_node
    for names in on_nodes.values():
        each = {name: spec.roles[name].memory_per_node or 0 for name in names}
        total, largest = Bytes(sum(each.values())), max(names, key=lambda name: each[name])
        if isinstance(wanted, Bytes) and total > wanted:
            ledger.problem(
                CODE,
                f"roles of one node may use {total} of its memory, but the job requests {wanted}",
                f"roles.{largest}.memory_per_node",
                "resources.memory_per_node",
                help="remove `memory_per_node` from `resources`: the job then requests what its roles may use",
            )
    for name, plan in plans.items():
        launcher = backends.launcher(plan.launch.name)
        if spec.roles[name].memory_per_node is not None and not launcher.LIMITS_MEMORY:
            ledger.problem(
                CODE,
                f"launcher `{launcher.NAME}` does not limit the memory of role `{name}`: it is requested with the job, no more",
                f"roles.{name}.memory_per_node",
                help="with Slurm and `launcher: srun` a role that uses more is ended alone",
                warning=True,
            )


def is_one_node(site: Site) -> bool:
    """Whether all roles are on one node, since the site's scheduler has no more."""
    return backends.scheduler(site.scheduler.type).MOST_NODES == 1


def width(plan: Plan) -> tuple[int, int]:
    """The GPUs and CPUs of a node that a role uses."""
    request = plan.request
    return request.gpus_per_node or 0, (request.cpus_per_rank or 0) * request.ranks_per_node


def _has_roles(name: str) -> bool:
    scheduler = backends.scheduler(name)
    return scheduler.ROLES_INSIDE and not scheduler.ON_THIS_MACHINE
