"""`dlrun plan`: show or save the plan of a job."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dlrun.errors import Invalid
from dlrun.terminal.help_page import examples
from dlrun.terminal.options import UserPath, force_option, json_option, spec_options
from dlrun.terminal.printing import echo, echo_data, emit, notice, warn
from dlrun.terminal.spec_command import SpecCommand

if TYPE_CHECKING:
    from dlrun.model.plan import Plan


@click.command(cls=SpecCommand, epilog=examples("dlrun plan spec.yaml -o run.json && dlrun submit run.json"))
@spec_options
@click.option(
    "-o",
    "--output",
    type=UserPath(),
    help="Save the plan as JSON, for `dlrun submit FILE.json`.",
)
@force_option
@click.option("--cost", is_flag=True, help="Show only the maximum cost, in the site's billing units.")
@json_option
def command(
    spec: Path,
    site: str | None,
    sets: tuple[str, ...],
    output: Path | None,
    force: bool,
    cost: bool,
    as_json: bool,
) -> None:
    """Show the plan of SPEC: layout, binding of the ranks, environment variables with reasons, data, cost."""
    from dlrun.jobs.submission.prepare import prepare
    from dlrun.render.script import plan_json
    from dlrun.system.writing import refuse_existing, write_output

    if output is not None and output.suffix != ".json":
        named = "plan.json" if output.name in ("json", "yaml", "text") else str(output.with_suffix(".json"))
        raise Invalid(
            f"`{output}` does not end in .json",
            help=f"write `{shlex.quote(named)}`, by which `dlrun submit` recognises a saved plan; "
            "`--json` prints it",
        )
    if output is not None:
        refuse_existing(output, force=force)
    prepared = prepare(spec, sets=sets, site=site)
    plan = prepared.plan
    if output is not None:
        write_output(output, plan_json(plan), force=force)
        notice(f"saved; `dlrun submit {shlex.quote(str(output))}` submits this plan")
    if cost:
        _print_cost(plan, as_json=as_json)
    elif as_json:
        echo_data(plan_json(plan))
    elif output is None:
        from dlrun.cli.specs.plan_text import show

        show(prepared)
        warn(plan.warnings)
        notice("nothing was submitted")


def _print_cost(plan: Plan, *, as_json: bool) -> None:
    """Print the maximum cost of the job."""
    if as_json:
        emit("cost", plan.cost)
        return
    from dlrun.jobs.queue.cost_text import at_most

    if plan.cost is None:
        raise Invalid("the cost is unknown without a walltime", help="add `walltime:` under `resources:`")
    echo(at_most(plan.cost))
