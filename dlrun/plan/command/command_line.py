"""The training command: the names in `{{ }}`, and the command of each point of a sweep."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dlrun.frameworks.protocol import Shape
from dlrun.model.plan import DataPlan, Point, RolePlan
from dlrun.model.record import record
from dlrun.model.spec import SHELL, Spec
from dlrun.model.text import NodeVariables, Shell, Text
from dlrun.plan.command import expressions
from dlrun.plan.decisions import Ledger
from dlrun.plan.resources import Layout
from dlrun.plan.roles import BackEnds


@record(frozen=True, slots=True, kw_only=True)
class Known:
    """The sources of values in `{{ }}`; `threads` is None where it is known only on the node; `peers` are the job's roles."""

    spec: Spec
    layout: Layout
    threads: int | None
    data: Sequence[DataPlan]
    directory: str
    peers: Sequence[str] = ()


def global_batch(spec: Spec, layout: Layout) -> int | None:
    """Samples per step over all ranks; None without `batch_per_rank`."""
    return spec.batch_per_rank * layout.ranks if spec.batch_per_rank is not None else None


ROLE_VALUES = ("address", "host", "hosts", "port")
"""What `{{ role.NAME.VALUE }}` can be: HOST:PORT, the first host, all hosts with commas, the port on the first host."""
ROLE_VARIABLE = "DLRUN_ROLE_{}_{}"
"""The variable of such a value."""

_VALUES: Mapping[str, Callable[[Known], Any]] = {
    "name": lambda known: known.spec.name,
    "nodes": lambda known: known.layout.nodes,
    "ranks_per_node": lambda known: known.layout.ranks_per_node,
    "world_size": lambda known: known.layout.ranks,
    "gpus_per_node": lambda known: known.layout.gpus_per_node,
    "rank": lambda _: Shell("$DLRUN_RANK"),
    "local_rank": lambda _: Shell("$DLRUN_LOCAL_RANK"),
    "node_rank": lambda _: Shell("$DLRUN_NODE_RANK"),
    "host": lambda _: Shell("$DLRUN_HOST"),
    "job_dir": lambda _: Shell("$DLRUN_JOB_DIR"),
    "run_dir": lambda _: Shell("$DLRUN_RUN_DIR"),
    "submit_dir": lambda known: known.directory,
    "threads": lambda known: Shell("$DLRUN_THREADS") if known.threads is None else known.threads,
    "data": lambda known: {data_set.name: data_set.path for data_set in known.data},
    "results": lambda known: Shell("$DLRUN_RESULTS") if known.spec.results else None,
    "batch_per_rank": lambda known: known.spec.batch_per_rank,
    "global_batch": lambda known: global_batch(known.spec, known.layout),
    "role": lambda known: {name: _of_role(name) for name in known.peers} or None,
}
"""Name in `{{ }}` -> its value (None: undefined in this job), without the parameters of a sweep."""


def _of_role(name: str) -> Mapping[str, Shell]:
    """The values of a role, which the job exports when it has divided its nodes."""
    return {
        value: Shell(f"${{{ROLE_VARIABLE.format(name.upper(), value.upper())}}}") for value in ROLE_VALUES
    }


_RANK_ONLY = ("threads", "data", "results")
"""Names valid only in the command: when variables are set, they are not known yet."""

RESERVED = frozenset(_VALUES)
"""Names that are constant over a sweep and therefore not allowed as parameters."""


def literal(word: str) -> str:
    """A word of a command in which `{{` stands for itself."""
    return word.replace("{{", "{{ '{{' }}")


def commands(known: Known, sweep: Sequence[Mapping[str, str]], ledger: Ledger) -> list[tuple[Text, ...]]:
    """The command with `{{ }}` substituted, for each point of a sweep (one command without a sweep)."""
    names = {"env": _environment(known.spec), **_values(known)}
    return [_fill(known.spec, {**names, **point}, ledger) for point in sweep or [{}]]


def variables(known: Known, sweep: Sequence[Mapping[str, str]], ledger: Ledger) -> dict[str, Text]:
    """Name -> value of the user's variables, with `{{ }}` substituted."""
    names = {name: value for name, value in _values(known).items() if name not in _RANK_ONLY}
    names["env"] = _environment(known.spec)
    filled = {}
    for name, value in known.spec.environment.variables.items():
        try:
            filled[name] = expressions.substitute(value, names)
        except expressions.ExpressionError as error:
            hint = error.help
            if sweep and error.name in sweep[0]:
                hint = f"variables are the same at every point; write it into the command: `[env, '{name}={value}', …]`"
            ledger.problem("DLR029", str(error), f"environment.variables.{name}", help=hint)
    return filled


def _environment(spec: Spec) -> NodeVariables:
    """`{{ env.NAME }}`, without secrets: arguments are visible to all users of a node (`ps`)."""
    return NodeVariables(without=frozenset(spec.secrets))


def _values(known: Known) -> dict[str, Any]:
    values = ((name, of(known)) for name, of in _VALUES.items())
    return {name: value for name, value in values if value is not None}


def _fill(spec: Spec, names: Mapping[str, Any], ledger: Ledger) -> tuple[Text, ...]:
    words = []
    for index, argument in enumerate(spec.command):
        try:
            shell_text = spec.run is not None and spec.command[:index] == SHELL
            words.append(expressions.substitute(argument, names, quoted=shell_text))
        except expressions.ExpressionError as error:
            hint = _instead(argument, error, names)
            ledger.problem("DLR029", str(error), f"command.{index}", "command", help=hint)
    # Later steps need a command even if this one has problems, so that all problems are reported together.
    return tuple(words) or (Text.of(""),)


_KEYS = ("resources", "placement", "environment", "sweep", "spec", "job", "params", "config")
"""Words before a dot as other templates have them; in `{{ }}` values have no such part before them."""
_OF_JOB = {
    "master_addr": "MASTER_ADDR", "master_port": "MASTER_PORT", "home": "HOME", "user": "USER", "scratch": "SCRATCH",
}  # fmt: skip
"""Names that are variables in a job, not values of the plan."""


def _instead(argument: str, error: expressions.ExpressionError, names: Mapping[str, Any]) -> str:
    """The help for an expression that cannot be evaluated."""
    name, hint = error.name, error.help
    if name in ("batch_per_rank", "global_batch"):
        return f"set `batch_per_rank:` to define it; {hint}"
    if name == "results":
        ending = "; a role has it if the job ends with that role (`ends: true`)" if "role" in names else ""
        return f"set `results: DIRECTORY`, where the files are copied{ending}"
    if re.search(r"\{\{\s*data\.", argument) and not names.get("data"):
        return (
            f"a data set has its name under `data:`, as in `data: {{{name}: {{source: …}}}}`"
            if name
            else hint
        )
    if name in _KEYS and (match := re.search(rf"\b{name}\.(?:\w+\.)*(\w+)", argument)) and match[1] in names:
        return f"write `{{{{ {match[1]} }}}}`"
    if name.lower() in ("job_id", "jobid", "slurm_job_id"):
        return "write `{{ env.SLURM_JOB_ID }}` (PBS: `{{ env.PBS_JOBID }}`); `{{ job_dir }}` is a directory of this job alone"
    if (variable := _OF_JOB.get(name.lower())) is not None:
        return f"write `{{{{ env.{variable} }}}}`, the variable of the job"
    if name and "nearest" not in hint and name.isidentifier() and name not in _KEYS:
        if "role" in names:  # a sweep is refused there
            return f"a job with roles has no parameters: write the value; {hint}"
        return f"a name of your own is a parameter of `sweep: {{{name}: […]}}`; {hint}"
    return hint


def points(
    sweep: Sequence[Mapping[str, str]],
    commands: Sequence[tuple[Text, ...]],
    role_plans: Sequence[RolePlan],
    choice: BackEnds,
    shape: Shape,
) -> tuple[Point, ...]:
    """The points of a sweep, each with the arguments of the training role.

    Most frameworks append the command unchanged; the others build their roles again for each point.
    """
    main = next((role for role in role_plans if not role.service), None)
    if not sweep or main is None:
        return ()
    size = len(commands[0])
    plain = main.argv[-size:] == commands[0]

    def argv(command: tuple[Text, ...]) -> tuple[Text, ...]:
        if plain:
            return (*main.argv[:-size], *command)
        roles = choice.framework.roles(shape, command, choice.options)
        return next(role.argv for role in roles if role.name == main.name)

    return tuple(
        Point(index=index, parameters=point, argv=argv(command))
        for index, (point, command) in enumerate(zip(sweep, commands, strict=True))
    )
