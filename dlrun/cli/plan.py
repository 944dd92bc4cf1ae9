"""`dlrun plan`: show or save the plan of a job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dlrun.cli.help_page import examples
from dlrun.cli.options import UserPath, json_option, spec_options
from dlrun.cli.printing import echo, echo_data, emit, notice
from dlrun.cli.spec_command import SpecCommand

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
@click.option("--cost", is_flag=True, help="Show only the maximum cost, in the site's billing units.")
@json_option
def command(
    spec: Path, site: str | None, sets: tuple[str, ...], output: Path | None, cost: bool, as_json: bool
) -> None:
    """Show the plan of SPEC: layout, binding of the ranks, environment variables with reasons, data, cost."""
    from dlrun.effects.jobs.prepare import prepare
    from dlrun.errors import Invalid
    from dlrun.render.script import plan_json

    if output is not None and output.suffix != ".json":
        raise Invalid(
            f"`{output}` does not end in .json", help="`dlrun submit` recognises a saved plan by this suffix"
        )
    plan = prepare(spec, sets=sets, site=site).plan
    if output is not None:
        from dlrun.cli.files import save

        save(output, plan_json(plan))
        notice(f"saved; `dlrun submit {output}` submits this plan")
    if cost:
        _print_cost(plan, as_json=as_json)
    elif as_json:
        echo_data(plan_json(plan))
    elif output is None:
        from dlrun.cli.output.plan import show

        show(plan)
        for warning in plan.warnings:
            notice(f"warning: {warning}")
        notice("nothing was submitted")


def _print_cost(plan: Plan, *, as_json: bool) -> None:
    """Print the maximum cost of the job."""
    if as_json:
        from dlrun.model.json_codec import to_plain

        emit("cost", to_plain(plan.cost))
        return
    from dlrun.cli.output.cost import at_most
    from dlrun.errors import Invalid

    if plan.cost is None:
        raise Invalid("the cost is unknown without a walltime", help="add `walltime:` under `resources:`")
    echo(at_most(plan.cost))
