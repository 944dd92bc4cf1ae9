"""`dlrun diff`: what differs between two jobs, or between a job and today."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dlrun.terminal.help_page import examples
from dlrun.terminal.options import complete_jobs, json_option
from dlrun.terminal.printing import echo, echo_data, emit, notice

if TYPE_CHECKING:
    from dlrun.jobs.queue.compare import Difference

_SHOWN = 20
"""Differences of one section that are shown without --text."""


@click.command(epilog=examples("dlrun diff resnet-lr1 resnet-lr2 --text"))
@click.argument("job", shell_complete=complete_jobs)
@click.argument("other", shell_complete=complete_jobs, required=False)
@click.option(
    "--text", "texts", is_flag=True, help="Show all differences, and those of texts as `diff -u` does."
)
@json_option
def command(job: str, other: str | None, texts: bool, as_json: bool) -> None:
    """Show what differs between JOB and OTHER: plan, settings, code, environment. Without OTHER: between JOB and today.

    The code of a job with `code: snapshot` is compared line by line, that of others by digests.
    """
    from dlrun.jobs.queue import compare
    from dlrun.jobs.records import jobs

    before = compare.of_job(jobs.find(job))
    if other is not None:
        after = compare.of_job(jobs.find(other))
    else:
        after = compare.of_now(jobs.find(job))
        if after.fault is not None:
            notice(f"the plan is not compared, since none can be made today: {after.fault}")
    differences = list(compare.differences(before, after))
    if as_json:
        emit(
            "differences",
            [
                {"section": d.section, "name": d.name, "before": d.before, "after": d.after}
                for d in differences
            ],
        )
        return
    for section in ("plan", "settings", "code", "environment"):
        own = [difference for difference in differences if difference.section == section]
        echo(f"{section}: {'no difference' if not own else ''}".rstrip())
        for difference in own if texts else own[:_SHOWN]:
            echo(f"  {_line(difference)}")
            if texts and section in ("settings", "code"):
                echo_data(compare.text(before, after, difference))
        if len(own) > _SHOWN and not texts:
            notice(f"and {len(own) - _SHOWN} more; `--text` shows all")


def _line(difference: Difference) -> str:
    """A difference on one line."""
    if difference.section == "settings" or (
        difference.section == "code" and not difference.name.startswith("(")
    ):
        kind = "is new" if difference.before is None else "is gone" if difference.after is None else "differs"
        return f"{difference.name} {kind}"
    return f"{difference.name}: {difference.before or '-'} -> {difference.after or '-'}"
