"""Plan -> the pages of a job; for a job with roles also those of each role, in a directory of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import jinja2

from dlrun import __version__, backends
from dlrun.model.job import role_directory
from dlrun.model.plan import Plan, RoleJob
from dlrun.model.program import Ready
from dlrun.model.units import many
from dlrun.render.parts import (
    END_SIGNAL,
    before_end,
    hosts,
    job_parts,
    keeps,
    outlives_first_node,
    patience,
    requeue_of_job,
    sourced,
)
from dlrun.render.script import by_hand, environment_of, scripts

ROLES = "roles.json"
"""The file that the job's own program, roles.py, reads."""
GRACE = 10
"""Seconds between the signal that ends a service and SIGKILL."""
_VERSION = 1


def pages(
    plan: Plan, job_dir: str, templates: Path, compiled: jinja2.BytecodeCache | None = None
) -> dict[str, str]:
    """File name -> text of the pages of a job in `job_dir` (an absolute path); raises like `scripts`."""
    if plan.role_jobs is None:
        return scripts(plan, job_dir, templates, compiled)
    made = {"job.sh": _job(plan, job_dir, templates, compiled), ROLES: roles_json(plan)}
    for role in plan.role_jobs.jobs:
        place = role_directory(role.name)
        of_role = scripts(role.plan, f"{job_dir}/{place}", templates, compiled)
        made |= {f"{place}/{name}": text for name, text in of_role.items()}
    return made


def roles_json(plan: Plan) -> str:
    """What roles.py has to do, as JSON text."""
    jobs = plan.each_role
    whole = {
        "version": _VERSION,
        "grace": GRACE,
        "walltime": int(plan.request.walltime or 0),
        **_requeue(plan),
        **_spare(plan),
        "roles": [_as_data(role) for role in jobs],
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _requeue(plan: Plan) -> dict[str, object]:
    """The early signal of the job, and how it is started again."""
    values: dict[str, object] = {}
    if before := before_end(plan):
        # Services run on until those that end the job have ended; then what they wrote beside their code is copied.
        rest = [role.plan.results for role in plan.each_role if not role.ends]
        values["before"] = before + max(
            (int(results.before_end) for results in rest if results is not None), default=0
        )
    if plan.requeue_on:
        values |= {
            "requeues": plan.requeue,
            "requeue_on": list(plan.requeue_on),
            "requeue": requeue_of_job(plan),
        }
    return values


def _spare(plan: Plan) -> dict[str, object]:
    """How the nodes of the roles are chosen where more are granted than they need."""
    checks = plan.node_checks
    if checks is None:
        return {}
    values = {
        "nodes": plan.request.nodes,
        "patience": patience(checks),
        "leave_out": list(checks.leave_out),
        "directory": checks.directory,
        "restarts": plan.checkpoint is not None,
        "outlives": outlives_first_node(plan),
    }
    return {"spare": values}


def _as_data(role: RoleJob) -> dict[str, object]:
    return {
        "name": role.name,
        "nodes": role.plan.request.nodes,
        "needs": list(role.needs),
        "ends": role.ends,
        "restarts": role.restarts,
        **({"beside": role.beside} if role.beside is not None else {}),
        **({"component": role.component} if role.component is not None else {}),
        "ports": 1,
        **dict(_ending(role)),
        "ready": dict(_ready(role.ready)) if role.ready is not None else None,
        "within": int(role.ready.within) if role.ready is not None else None,
    }


def _ending(role: RoleJob) -> Iterator[tuple[str, object]]:
    """The signal of a role before the end of the walltime, and the seconds for its results and what it has compiled."""
    plan = role.plan
    if plan.checkpoint is not None:
        yield "signal", plan.checkpoint.carrier
    elif plan.results is not None and role.ends:
        yield "signal", END_SIGNAL
    if plan.results is not None or keeps(plan):
        yield "copies", (int(plan.results.before_end) if plan.results else 0) + (5 if keeps(plan) else 0)


def _where(role: RoleJob) -> str:
    nodes = many(role.plan.request.nodes, "node")
    return f"{nodes} of {role.beside}" if role.beside is not None else nodes


def _ready(ready: Ready) -> Iterator[tuple[str, object]]:
    if ready.http is not None:
        yield from (("http", ready.http), ("status", ready.status))
    elif ready.log is not None:
        yield "log", ready.log
    elif ready.file is not None:
        yield "file", ready.file
    else:
        yield "port", True


def _job(plan: Plan, job_dir: str, templates: Path, compiled: jinja2.BytecodeCache | None) -> str:
    """The job's own page: it only divides the nodes among the roles."""
    assert plan.role_jobs is not None  # noqa: S101 - the caller's condition
    environment = environment_of(templates)
    environment.bytecode_cache = compiled
    scheduler, jobs = backends.scheduler(plan.scheduler), plan.role_jobs.jobs
    return environment.get_template("roles.sh.j2").render(
        plan=plan,
        scheduler=scheduler,
        prefix=scheduler.PREFIX,
        version=__version__,
        job_dir=job_dir,
        hosts=hosts(plan),
        size=f"{many(plan.request.nodes, 'node')} for {many(len(jobs), 'role')}",
        divided=", ".join(f"{role.name} ({_where(role)})" for role in jobs),
        submit=f"`{by_hand(plan)}`",
        parts=sourced(job_parts(plan)),
        roles_line=["dlrun_roles", *plan.role_jobs.start],
    )
