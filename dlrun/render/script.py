"""Plan -> the two scripts of a job, through the templates."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2

from dlrun import __version__, backends
from dlrun.launchers import ssh
from dlrun.model.cpuset import format_list
from dlrun.model.json_codec import to_plain
from dlrun.model.plan import Plan, Variable
from dlrun.model.text import Shell, Text
from dlrun.plan.data.stage_arguments import stage_words
from dlrun.render.shell import Raw, command, comment, quote

if TYPE_CHECKING:
    from dlrun.schedulers.protocol import Scheduler

_PLAIN_SSH = (Text.of("ssh"), Text.of("-o"), Text.of("BatchMode=yes"))
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
    """`job.sh` and `rank.sh` (and `stage.sh` where data is staged) of a job in `job_dir` (an absolute path).

    `compiled` is where compiled templates are kept between runs, if anywhere.
    Raises jinja2.TemplateError if a template is at fault, ValueError for text that no argument can hold.
    """
    environment = _environment(templates)
    environment.bytecode_cache = compiled
    scheduler = backends.scheduler(plan.scheduler)
    for_job, for_rank = _scopes(plan.variables)
    staged = [one for one in plan.data if one.strategy != "in_place"]
    if plan.environment.staged is not None:
        staged.append(plan.environment.staged)
    context: Mapping[str, Any] = {
        "plan": plan,
        "scheduler": scheduler,
        "prefix": scheduler.PREFIX,
        "version": __version__,
        "job_dir": job_dir,
        "job_variables": for_job,
        "rank_variables": for_rank,
        "staged": staged,
        "checked": next((role for role in plan.roles if not role.service), None),
        "led": [role for role in plan.roles if role.identity is not None],
        "own_causes": _own_causes(plan),
        "asks_by": _asks_by(plan, scheduler),
        "stage_words": lambda data: stage_words(data, plan.request, plan.stage_quota),
        "stage_directory": plan.stage_directory,
        "names": _names(plan),
        "expansions": _expansions(plan),
        "endings": plan.checkpoint is not None or bool(plan.requeue_on) or plan.results is not None,
        "staging": bool(staged) or plan.results is not None,
        "threads": plan.binding.placement.ranks[0].threads
        if plan.binding.placement
        else plan.request.threads,
    }
    names = ("job.sh", "rank.sh", "stage.sh") if context["staging"] else ("job.sh", "rank.sh")
    return {name: environment.get_template(f"{name}.j2").render(context) for name in names}


def _own_causes(plan: Plan) -> bool:
    """True if the job may find out by itself why it ends, and notes it."""
    fabric = plan.fabric_check is not None and plan.fabric_check.action == "fail"
    return plan.verify == "fail" or fabric or plan.node_checks is not None


def _asks_by(plan: Plan, scheduler: Scheduler) -> Sequence[Text]:
    """The ssh command by which the job asks each node, after a failure, whether it is still there.

    Empty where that is told by something else: the scheduler, or checks of the nodes. An MPI's own launcher may need no ssh;
    where all nodes refuse it, the job takes that for no answer.
    """
    if plan.request.nodes == 1 or plan.node_checks is not None:
        return ()
    if plan.launch.name == ssh.NAME:
        started = next((role.launch for role in plan.roles if role.launch), ())
        return ssh.command(started) if started else ()
    return () if scheduler.TELLS_OF_LOST_NODES else _PLAIN_SSH


def plan_json(plan: Plan) -> str:
    """The plan as JSON text; `dlrun.model.json_codec.from_plain(Plan, …)` reads it back."""
    return json.dumps(to_plain(plan), indent=1, ensure_ascii=False) + "\n"


def _scopes(variables: tuple[Variable, ...]) -> tuple[list[Variable], list[Variable]]:
    """Variables that job.sh can set, and those that only a rank can."""
    for_rank = [
        v for v in variables if any(isinstance(p, Shell) and p.code in _RANK_LEVEL for p in v.value.parts)
    ]
    return [v for v in variables if v not in for_rank], for_rank


def _expansions(plan: Plan) -> str:
    """The code of every shell expansion in the roles: it says which functions they need."""
    texts = [t for role in plan.roles for t in (*role.argv, *role.lead, role.ready) if t is not None]
    texts += [v.value for role in plan.roles for v in role.variables]
    texts += [t for point in plan.points for t in point.argv]
    return "\n".join(p.code for t in texts for p in t.parts if isinstance(p, Shell))


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
        autoescape=False,  # noqa: S701 - `finalize` quotes for the shell; this is no HTML
    )
    environment.filters |= {
        "raw": Raw,
        "comment": comment,
        "command": command,
        "why": _why,
        "cpu_list": lambda cpus: Text.of(format_list(cpus)),
        "parameters": lambda point: ", ".join(f"{k}={v}" for k, v in point.items()),
    }
    return environment


def _source(template: Path) -> tuple[str, str, None]:
    """A template's text and path, without the questions to the file system by which a server sees that it changed."""
    return template.read_text(encoding="utf-8"), str(template), None


def _word(value: Any) -> str:
    return quote(
        str(value) if isinstance(value, jinja2.Undefined) else value
    )  # `str` names what is undefined


def _why(variable: Variable) -> Raw:
    source = f" [{variable.source}]" if variable.source else ""
    return comment(variable.because + source)
