"""Plan -> the pages of a job (`job.sh`, `rank.sh`, `stage.sh`), through the templates."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from dlrun import __version__, backends, resources
from dlrun.errors import Invalid
from dlrun.model.cpuset import format_list
from dlrun.model.json_codec import to_plain
from dlrun.model.placement import RankPlacement
from dlrun.model.plan import Plan, RolePlan, Variable
from dlrun.model.text import Shell, Text, of_node
from dlrun.model.units import many
from dlrun.plan import log_names
from dlrun.plan.data.stage_arguments import stage_words
from dlrun.render import parts
from dlrun.render.shell import Raw, command, comment, join, quote, wrapped

_PLAIN_SSH = (Text.of("ssh"), Text.of("-o"), Text.of("BatchMode=yes"))
_WIDTH = 110
"""Columns of a heading."""
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

    `compiled` is where compiled templates are kept between runs, if anywhere.
    Raises jinja2.TemplateError if a template is at fault, ValueError for text that no argument can hold.
    """
    environment = _environment(templates)
    environment.bytecode_cache = compiled
    context = {**_of_job(plan, job_dir), **_of_ranks(plan), **_of_staging(plan), "plan": plan}
    pages = {"stage.sh": context["staging"], "bind.sh": parts.binds_apart(plan)}
    names = ["job.sh", "rank.sh", *(name for name, is_used in pages.items() if is_used)]
    return {name: environment.get_template(f"{name}.j2").render(context) for name in names}


def plan_json(plan: Plan) -> str:
    """The plan as JSON text; `dlrun.model.json_codec.from_plain(Plan, …)` reads it back."""
    return json.dumps(to_plain(plan), indent=1, ensure_ascii=False) + "\n"


def _of_job(plan: Plan, job_dir: str) -> Mapping[str, Any]:
    """Values of `job.sh` that are derived from the plan."""
    scheduler, env = backends.scheduler(plan.scheduler), plan.environment
    request, checked = plan.request, _checked(plan)
    for_job, _ = _scopes(plan.variables)
    gpus = f", {many(request.gpus_per_node, 'GPU')} on each node" if request.gpus_per_node else ""
    each = f", {request.ranks_per_node} on each node" if request.nodes > 1 else ""
    return {
        "scheduler": scheduler,
        "prefix": scheduler.PREFIX,
        "version": __version__,
        "job_dir": job_dir,
        "size": f"{many(request.nodes, 'node')}, {many(request.ranks, 'rank')}{each}{gpus}",
        "checked": checked,
        "command_line": join(plan.points[0].argv if plan.points else checked.argv),
        "of_point": f" of point 0 of {len(plan.points)}" if plan.points else "",
        "submit": f"`{_by_hand(plan)}`",
        "parts": " ".join(parts.job_parts(plan)),
        "logs_of": max(role.count for role in plan.roles) if log_names.directories(plan.roles) else 0,
        "ending": _ending(plan, early=scheduler.SIGNALS_EARLY),
        "resubmit": f"dlrun_resubmit {join(scheduler.submit('job.sh'))}",
        "asks_by": _asks_by(plan),
        "sets_up": bool(
            env.site_setup or env.modules or env.hygiene != "keep" or env.conda or env.venv or env.setup
        ),
        "job_variables": for_job,
        "led": [role for role in plan.roles if role.identity is not None],
        "expansions": parts.expansions(plan),
        "launch_line": _launch_line,
    }


def _by_hand(plan: Plan) -> str:
    """How a person submits the script from its directory."""
    scheduler = backends.scheduler(plan.scheduler)
    if plan.points and scheduler.tasks("1"):  # each point is a job: no client does that by itself
        return join(scheduler.submit("job.sh", points=len(plan.points), at_once=plan.request.at_once))
    return f"{scheduler.BY_HAND} job.sh"


def _of_ranks(plan: Plan) -> Mapping[str, Any]:
    """Values of `rank.sh` that are derived from the plan."""
    placement = plan.binding.placement
    return {
        "logs": " node" if plan.logs == "node" else "",
        "rank_variables": _scopes(plan.variables)[1],
        "names": _names(plan),
        "checks": _checks(plan),
        "threads": placement.ranks[0].threads if placement else plan.request.threads,
        "binds": lambda rank: _binds(plan, rank),
        "tell_flags": lambda role: _tell_flags(plan, role),
    }


def _of_staging(plan: Plan) -> Mapping[str, Any]:
    """Values of `stage.sh`, and of the part of `job.sh` that starts it, that are derived from the plan."""
    staged = [one for one in plan.data if one.strategy != "in_place"]
    if plan.environment.staged is not None:
        staged.append(plan.environment.staged)
    if parts.stages(plan) and plan.stage_directory is None:
        raise Invalid(
            "the plan has data to stage and no `stage_directory`", help="create it again with `dlrun plan -o`"
        )
    staged.sort(key=lambda data: data.start is not None)  # the rest of that one comes while the training runs
    several = plan.request.nodes > 1 and plan.stage_scope == "node"
    return {
        "staging": parts.stages(plan),
        "staged": staged,
        "chains": bool(staged) and several,
        "keeping": _keeping(plan),
        "early": any(data.start is not None for data in staged),
        "kept_nodes": 1 if plan.stage_scope == "job" else plan.request.nodes,
        "stage_words": lambda data: stage_words(data, plan.request, plan.stage_quota),
    }


def _keeping(plan: Plan) -> Shell | None:
    """Where a process that waits for the job's end finds which node it is on; None: where the others do."""
    steps = backends.scheduler(plan.scheduler).STEPS
    if not plan.stage_keep or steps is None or steps == plan.launch.name:
        return None
    return backends.launcher(steps).IDENTITY.rank


def _checked(plan: Plan) -> RolePlan:
    """The training's own processes, which checks look at."""
    found = next((role for role in plan.roles if not role.service), None)
    if found is None:
        raise Invalid(
            "the plan has no ranks: every role is a service", help="create it again with `dlrun plan -o`"
        )
    return found


def _ending(plan: Plan, *, early: bool) -> str:
    """The line by which the ranks are warned, or ended, before the walltime is over; empty without one.

    `early`: the scheduler itself sends the warning.
    """
    checkpoint, wall, results = plan.checkpoint, plan.request.walltime, plan.results
    reserve = int(results.before_end) if results else 0
    if checkpoint is not None:
        before = int(checkpoint.before_end)
        due = str(int(wall) - before - reserve) if wall else ""
        words = (checkpoint.signal, checkpoint.carrier, str(before), due, "scheduler" if early else "job")
        to = "rank 0" if checkpoint.to == "first" else "the ranks"
        said = "the signal, how it is delivered, seconds before the walltime ends, after the start, sender, receivers"
        return f"dlrun_checkpoint {join((*words, to))} # {said}"
    if wall and (results or "timed_out" in plan.requeue_on):
        before = min(30, int(wall) // 4)
        said = "seconds before the walltime ends, and after the start, at which the ranks are ended"
        return f"dlrun_end_before {before} {int(wall) - before - reserve} # {said}"
    return ""


def _asks_by(plan: Plan) -> Sequence[Text]:
    """The ssh command by which the job asks each node, after a failure, whether it is still there; empty: it does not.

    An MPI's own launcher may need no ssh; where all nodes refuse it, the job takes that for no answer.
    """
    if not parts.asks_nodes(plan):
        return ()
    started: Sequence[Text] = next((role.launch for role in plan.roles if role.launch), ())
    return backends.launcher(plan.launch.name).command(started) or _PLAIN_SSH


def _launch_line(role: RolePlan) -> list[object]:
    """The words that start a role."""
    how = "dlrun_launch"
    if role.service:
        how = "dlrun_service_that_ends" if role.ends else "dlrun_service"
    return [how, *role.launch, Raw(f'bash "$DLRUN_JOB_DIR/rank.sh" {quote(role.name)}')]


def _checks(plan: Plan) -> list[str]:
    """The lines by which a rank looks at itself."""
    lines, request, role = [], plan.request, _checked(plan)
    if plan.verify != "off":
        gpus = request.gpus_per_node or 0
        each = gpus // (request.ranks_per_node if role.binds else 1)
        words = (plan.verify, "yes" if role.binds else "no", gpus, each, request.ranks_per_node)
        said = "action on a difference, bound or not, GPUs of the node, of the rank, ranks on the node"
        lines.append(f"dlrun_check_placement {join(words)} # {said}")
    if plan.usage:
        lines.append("dlrun_measure # beside the program: what the ranks of this node use, for `dlrun usage`")
    if plan.hang is not None:
        lines.append(
            f"dlrun_mark_idle {int(plan.hang)} # leaves a mark after so many seconds without output or CPU time"
        )
    return lines


def _binds(plan: Plan, rank: RankPlacement) -> str:
    """What binds a rank: its cores and memory, and the variables for its part of the node."""
    told = {}
    if rank.comm:
        told["DLRUN_COMM_CPUS"] = ",".join(map(str, rank.comm))
    if rank.loader:
        told["DLRUN_LOADER_CPUS"] = format_list(rank.loader)
    words = [str(rank.threads), format_list(rank.mask)]
    if memory := rank.memory.numactl():
        words.append(memory)
    lines = [f"export {' '.join(f'{name}={quote(value)}' for name, value in told.items())}"] if told else []
    lines.append(f"dlrun_bind {join(words)}")
    if plan.binding.gpu_variable and rank.gpus:
        gpus = ",".join(map(str, rank.gpus))
        lines.append(f"dlrun_show_gpus {join((plan.binding.gpu_variable, gpus))}")
    return "; ".join(lines)


def _tell_flags(plan: Plan, role: RolePlan) -> str:
    """How this role takes the early warning."""
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
    """Variables that job.sh can set, and those that only a rank can."""
    for_rank = [
        v
        for v in variables
        if any(isinstance(p, Shell) and (p.code in _RANK_LEVEL or of_node(p.code)) for p in v.value.parts)
    ]
    return [v for v in variables if v not in for_rank], for_rank


def _names(plan: Plan) -> list[str]:
    """Every variable that dlrun, the site or the user sets for a rank."""
    told = [v.name for role in plan.roles for v in role.variables]
    gpus = [plan.binding.gpu_variable] if plan.binding.gpu_variable else []
    return list(
        dict.fromkeys([*(v.name for v in plan.variables), *told, *gpus, *(s.name for s in plan.secrets)])
    )


def _environment(templates: Path) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: _source(templates / name)),
        undefined=jinja2.StrictUndefined,
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
    """A template's text and path, without the questions to the file system by which a server sees that it changed."""
    return resources.text(template), str(template), None


def _word(value: Any) -> str:
    return quote(
        str(value) if isinstance(value, jinja2.Undefined) else value
    )  # `str` names what is undefined


def _why(variable: Variable) -> Raw:
    source = f" [{variable.source}]" if variable.source else ""
    return comment(variable.because + source)
