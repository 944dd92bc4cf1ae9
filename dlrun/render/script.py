"""Plan -> the scripts of a job (`job.sh`, `rank.sh`, `stage.sh`), by the templates."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import jinja2

from dlrun import __version__, backends, resources
from dlrun.errors import Invalid
from dlrun.fabrics import process_managers
from dlrun.model.cpuset import format_list
from dlrun.model.data import Snapshot
from dlrun.model.json_codec import to_plain
from dlrun.model.placement import RankPlacement
from dlrun.model.plan import Plan, RolePlan, Variable
from dlrun.model.text import Shell, Text, digits, of_node
from dlrun.model.units import many
from dlrun.plan import log_names
from dlrun.plan.trackers.decide import EVERY
from dlrun.render import parts, stage_variables
from dlrun.render.binding_variables import COUNT_CORES, NAME_CORES
from dlrun.render.grant import grant_lines
from dlrun.render.shell import Raw, command, comment, join, quote, wrapped
from dlrun.schedulers.allocation import is_inside

_WIDTH = 110
"""Width of a heading in characters."""
# Values that differ between ranks: a variable that uses one is set by `rank.sh`, not by `job.sh`.
_RANK_LEVEL = (
    "$DLRUN_RANK",
    "$DLRUN_LOCAL_RANK",
    "$DLRUN_NODE_RANK",
    "$DLRUN_HOST",
    "$DLRUN_THREADS",
    "$DLRUN_LOCAL_SIZE",
)


def scripts(
    plan: Plan, job_dir: str, templates: Path, compiled: jinja2.BytecodeCache | None = None
) -> dict[str, str]:
    """`job.sh` and `rank.sh` (and `stage.sh` where data is staged, `bind.sh` where an agent's ranks are bound) of a job in
    `job_dir` (an absolute path).

    `compiled` is a cache of compiled templates between runs.
    Raises jinja2.TemplateError for a faulty template, ValueError for text that cannot be a program's argument.
    """
    environment = environment_of(templates)
    environment.bytecode_cache = compiled
    context = {**_of_job(plan, job_dir), **_of_ranks(plan), **stage_variables.variables(plan), "plan": plan}
    pages = {"stage.sh": "staging", "image.sh": "image_line", "bind.sh": "binds_apart"}
    names = ["job.sh", "rank.sh", *(name for name, key in pages.items() if context[key])]
    return {name: environment.get_template(f"{name}.j2").render(context) for name in names}


def plan_json(plan: Plan) -> str:
    """The plan as JSON text; `dlrun.model.json_codec.from_plain(Plan, …)` reads it back."""
    return json.dumps(to_plain(plan), indent=1, ensure_ascii=False) + "\n"


def _digest(plan: Plan) -> str:
    """A short name for the plan: equal plans have the same."""
    return sha256(plan_json(plan).encode("utf-8", "surrogateescape")).hexdigest()[:12]


def _continues_wandb(plan: Plan) -> bool:
    """True if a job without `track` continues its run of Weights & Biases when it starts again.

    Not where an agent starts the ranks: those of the first node would inherit the id and write to one run.
    """
    by_agent = any(not role.service and not role.binds for role in plan.roles)
    return bool(plan.requeue_on) and not by_agent and all(v.name != "WANDB_RUN_ID" for v in plan.track)


def _of_job(plan: Plan, job_dir: str) -> Mapping[str, Any]:
    """The template variables of `job.sh`."""
    scheduler, env = backends.scheduler(plan.scheduler), plan.environment
    request, checked = plan.request, _checked(plan)
    only = request.hosts if is_inside(plan.scheduler) else ()
    for_job, _ = _scopes(plan.variables)
    gpus = f", {many(request.gpus_per_node, 'GPU')} on each node" if request.gpus_per_node else ""
    uneven = request.nodes * request.ranks_per_node != request.ranks
    each = (
        f", {'at most ' if uneven else ''}{request.ranks_per_node} on each node" if request.nodes > 1 else ""
    )
    return {
        "scheduler": scheduler,
        "hosts": parts.hosts(plan),
        "only": only,
        "pool_line": parts.pool_line(plan),
        "asks_first": parts.asks_first(plan),
        "prefix": scheduler.PREFIX,
        "version": __version__,
        "job_dir": job_dir,
        "size": f"{many(request.nodes, 'node')}, {many(request.ranks, 'rank')}{each}{gpus}",
        "checked": checked,
        "command_line": join(plan.points[0].argv if plan.points else checked.argv),
        "of_point": f" of the first of {len(plan.points)} points" if plan.points else "",
        "submit": f"`{by_hand(plan)}`",
        "parts": parts.sourced(parts.job_parts(plan)),
        "logs_of": max(role.count for role in plan.roles) if log_names.directories(plan.roles) else 0,
        "ending": _ending(plan, early=scheduler.SIGNALS_EARLY),
        "requeue": parts.requeue(plan),
        "of_job": "(($#)) || " if plan.pool is not None else "",
        "asks_by": _asks_by(plan),
        "reach": parts.reach(plan),
        "sets_up": bool(
            env.site_setup or env.modules or env.hygiene != "keep" or env.conda or env.venv or env.setup
        ),
        "job_variables": for_job,
        "led": [role for role in plan.roles if role.identity is not None],
        "expansions": parts.expansions(plan),
        "launch_line": _launch_line,
        "snapshot": isinstance(plan.code, Snapshot),
        "hub_sets": parts.hub_sets(plan),
    }


def by_hand(plan: Plan) -> str:
    """The command for submitting the script by hand from its directory."""
    scheduler = backends.scheduler(plan.scheduler)
    # Without job arrays each point of a sweep is a job, and a part of lib/ submits all of them.
    if plan.points and plan.pool is None and scheduler.tasks("1"):
        return join(scheduler.submit("job.sh", points=len(plan.points), at_once=plan.request.at_once))
    return f"{scheduler.BY_HAND} job.sh"


def _of_ranks(plan: Plan) -> Mapping[str, Any]:
    """The template variables of `rank.sh`."""
    placement = plan.binding.placement
    return {
        "logs": " node" if plan.logs == "node" else "",
        "work_directory": Shell("$DLRUN_WORK") if isinstance(plan.code, Snapshot) else plan.directory,
        "caches": parts.caches_line(plan),
        "every_rank": EVERY,
        "continues_wandb": _continues_wandb(plan),
        "track_first": [v for v in plan.track if v.rule != EVERY],
        "track_plan": _digest(plan) if plan.track else "",
        "rank_variables": _scopes(plan.variables)[1],
        "names": _names(plan),
        "checks": _checks(plan),
        "threads": placement.ranks[0].threads if placement else plan.request.threads,
        "binds": lambda rank: _binds(plan, rank),
        "binds_beside": lambda role: f"dlrun_bind_beside {_openmp(role)} {format_list(role.cpus)}",
        "grant": grant_lines(placement, plan.binding.gpu_variable, plan.cpu_shares) if placement else "",
        "fit": lambda role: " ".join(_of_cores(plan, role)) if placement else "",
        "checkpoint_flags": lambda role: _checkpoint_flags(plan, role),
    }


def _checked(plan: Plan) -> RolePlan:
    """The role of the training processes, which the checks apply to."""
    ranks = next((role for role in plan.roles if not role.service), None)
    if ranks is None:
        raise Invalid(
            "the plan has no ranks: every role is a service", help="create it again with `dlrun plan -o`"
        )
    return ranks


def _ending(plan: Plan, *, early: bool) -> str:
    """The line that signals or ends the ranks before the walltime's end; empty without one. early: the scheduler signals."""
    checkpoint, wall, due_before = plan.checkpoint, plan.request.walltime, parts.before_end(plan)
    within = plan.pool is not None or plan.role is not None  # another program has the job's time
    if checkpoint is not None:
        before = int(checkpoint.before_end)
        due = str(int(wall) - due_before) if wall and not within else ""
        sender = "scheduler" if early or within else "job"
        words = (checkpoint.signal, checkpoint.carrier, str(before), due, sender)
        to = "rank 0" if checkpoint.to == "first" else "the ranks"
        comment = (
            "the program's signal, the signal to the rank scripts, seconds before the end of the walltime, seconds after the "
            "start, sender, receivers"
        )
        return f"dlrun_checkpoint {join((*words, to))} # {comment}"
    if plan.role is not None and plan.results is not None:
        comment = "at this signal of roles.py, before the end of the walltime, the ranks are ended, so that results can be copied"
        return f"dlrun_end_at {parts.END_SIGNAL} {parts.time_to_end(plan)} # {comment}"
    if wall and not within and due_before:
        comment = "the ranks are ended so many seconds before the end of the walltime, which is so long after the start"
        return f"dlrun_end_before {parts.time_to_end(plan)} {int(wall) - due_before} # {comment}"
    return ""


def _asks_by(plan: Plan) -> Sequence[Text]:
    """The command that tests each node after a failure; empty if the job does not test nodes.

    Sites with an MPI launcher may not allow ssh between nodes; a job ignores the test if it fails on all nodes.
    """
    if not parts.asks_nodes(plan):
        return ()
    return parts.command_on_host(plan)


def _launch_line(role: RolePlan) -> list[object]:
    """The words of the line that starts a role."""
    how = "dlrun_launch"
    if role.service:
        how = "dlrun_service_that_ends" if role.ends else "dlrun_service"
    return [how, *role.launch, Raw(f'bash -p "$DLRUN_JOB_DIR/rank.sh" {quote(role.name)}')]


def _checks(plan: Plan) -> list[str]:
    """The lines of a rank's own checks."""
    lines, request, role = [], plan.request, _checked(plan)
    if plan.verify != "off":
        gpus = request.gpus_per_node or 0
        each = gpus // (request.ranks_per_node if role.binds else 1)
        words = (
            plan.verify,
            "yes" if role.binds else "no",
            gpus,
            each,
            request.ranks_per_node,
            _threads(plan),
        )
        comment = "on a difference; is it bound; GPUs per node and per rank; ranks per node; threads"
        lines.append(f"dlrun_check_placement {join(words)} # {comment}")
    if (action := parts.world_check(plan)) is not None:
        ways = [word for need in process_managers.needs(plan.launch.name) for word in (need.mpi, need.way)]
        comment = "ranks that their MPI does not connect; for each MPI the way out"
        lines.append(f"{wrapped(['dlrun_check_world', action, *ways])} # {comment}")
    if plan.usage:
        saves = plan.checkpoint and plan.checkpoint.path
        measure = join(["dlrun_measure", *([saves] if saves else [])])
        lines.append(
            f"{measure} # beside the program: records what the ranks of this node use, for `dlrun usage`"
        )
    if plan.hang is not None:
        lines.append(
            f"dlrun_mark_idle {int(plan.hang)} # reports the rank as idle after so many seconds without output or CPU time"
        )
    return lines


def _threads(plan: Plan) -> int:
    """Expected OMP_NUM_THREADS of each rank for the check; 0: not checked, because it is open or set by spec or site."""
    threads = plan.request.threads or 0
    own = [v.value.literal for v in plan.variables if v.name == "OMP_NUM_THREADS"]
    return threads if all(value in (None, str(threads)) for value in own) else 0


def _of_cores(plan: Plan, role: RolePlan) -> list[str]:
    """The variables that dlrun sets to core ids of the plan, or to numbers of them."""
    ours = [v.name for v in plan.variables if v.rule == "threads-per-rank"] + [v.name for v in role.variables]
    return [name for name in ours if name in NAME_CORES or name in COUNT_CORES]


def _openmp(role: RolePlan) -> int:
    """Threads of a process beside the ranks: those of OpenMP, where dlrun sets them."""
    own = next((v.value.literal for v in role.variables if v.name == "OMP_NUM_THREADS"), None)
    return int(own) if own is not None and digits(own) else 1  # a saved plan may have been edited


def _binds(plan: Plan, rank: RankPlacement) -> str:
    """The line that binds a rank to cores and memory, with the variables of its other cores and GPUs."""
    words = [str(rank.threads), format_list(rank.mask)]
    if memory := rank.memory.numactl():
        words.append(memory)
    lines = [f"dlrun_bind {join(words)}"]
    if rank.comm or rank.loader:
        lines.append(f"dlrun_other_cores {join((','.join(map(str, rank.comm)), format_list(rank.loader)))}")
    if plan.binding.gpu_variable and rank.gpus:
        gpus = ",".join(map(str, rank.gpus))
        lines.append(f"dlrun_show_gpus {join((plan.binding.gpu_variable, gpus))}")
    return "; ".join(lines)


def _checkpoint_flags(plan: Plan, role: RolePlan) -> str:
    """The flags of a role for the delivery of the early signal."""
    checkpoint = plan.checkpoint
    if checkpoint is None:
        return ""
    makes_way = "preempted" in plan.requeue_on and not backends.scheduler(plan.scheduler).REQUEUE
    flags = {
        "makes-way": makes_way and not role.service,
        "agent": role.name in checkpoint.agents,
        "ignore": checkpoint.signal in checkpoint.ignored,
    }
    return "".join(f" {name}" for name, is_set in flags.items() if is_set)


def _scopes(variables: tuple[Variable, ...]) -> tuple[list[Variable], list[Variable]]:
    """Variables set in `job.sh`, and those that need values of a rank."""
    for_rank = [
        v
        for v in variables
        if any(isinstance(p, Shell) and (p.code in _RANK_LEVEL or of_node(p.code)) for p in v.value.parts)
    ]
    return [v for v in variables if v not in for_rank], for_rank


def _names(plan: Plan) -> list[str]:
    """Names of all variables that dlrun, the site or the user set for a rank."""
    of_roles = [v.name for role in plan.roles for v in role.variables]
    gpus = [plan.binding.gpu_variable] if plan.binding.gpu_variable else []
    return list(
        dict.fromkeys(
            [
                *(v.name for v in (*plan.variables, *plan.track)),
                *of_roles,
                *gpus,
                *(s.name for s in plan.secrets),
            ]
        )
    )


def environment_of(templates: Path) -> jinja2.Environment:
    """The environment of the templates, which quotes every value for the shell."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: _source(templates / name)),
        # A misspelled name must fail here, not become an empty word in a job.
        undefined=jinja2.StrictUndefined,
        # Quoting is the default, so that a template cannot forget it.
        finalize=_word,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        comment_start_string="{##",  # `${#array[@]}` is bash
        comment_end_string="##}",
        autoescape=False,  # noqa: S701 - `finalize` quotes for the shell; this is not HTML
    )
    environment.filters |= {
        "raw": Raw,
        "comment": comment,
        "command": command,
        "wrapped": wrapped,
        "heading": lambda text: comment(f"# --- {text} ".ljust(_WIDTH, "-")),
        "why": _why,
        "cpu_list": lambda cpus: Text.of(format_list(cpus)),
        "parameters": lambda point: ", ".join(f"{k}={v}" for k, v in point.items()),
    }
    return environment


def _source(template: Path) -> tuple[str, str, None]:
    """A template's text and path, without Jinja's check for later changes of the file, which costs file system calls."""
    return resources.text(template), str(template), None


def _word(value: Any) -> str:
    # `str` of an undefined name raises the error that contains the name.
    return quote(str(value) if isinstance(value, jinja2.Undefined) else value)


def _why(variable: Variable) -> Raw:
    source = f" [{variable.source}]" if variable.source else ""
    return comment(variable.because + source)
