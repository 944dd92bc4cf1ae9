"""`dlrun verify`: do ranks run as planned on the real nodes?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dlrun.cli.options import json_option, say, spec_options

if TYPE_CHECKING:
    from dlrun.effects.verify import Checked


@click.command(epilog="Example: dlrun verify spec.yaml")
@spec_options
@json_option
def command(spec: Path, site: str | None, sets: tuple[str, ...], as_json: bool) -> int:
    """Run a short job with SPEC's plan in which each rank says what it is, and compare: exit 1 on any difference."""
    from dlrun.effects import verify

    job, checked = verify.run(spec, sets=sets, site=site, say=say)
    wrong = [one for one in checked if one.differences]
    if as_json:
        from dlrun.cli.output.json import emit
        from dlrun.model.plain import to_plain

        emit("verify", {"directory": str(job.directory), "job_id": job.job_id, "ranks": to_plain(checked)})
        return 1 if wrong else 0
    from dlrun.cli.output.table import table

    click.echo(
        table(("RANK", "HOST", "CPUS", "MEMORY", "1 MIB TO RANK 0", "VERDICT"), [_row(c) for c in checked])
    )
    for one in wrong:
        for difference in one.differences:
            click.echo(f"rank {one.rank} {difference.what}; likely: {difference.cause}")
    say(f"{len(checked) - len(wrong)} of {len(checked)} ranks are as planned")
    return 1 if wrong else 0


def _row(one: Checked) -> tuple[str, ...]:
    from dlrun.model.cpuset import format_list

    verdict = "differs" if one.differences else "as planned"
    if one.report is None:
        return (str(one.rank), "-", "-", "-", "-", verdict)
    taken = one.report.get("round_trip")
    trip = f"{taken * 1000:.1f} ms" if taken is not None else "-"
    return (
        str(one.rank), one.report["host"], format_list(one.report["mask"]), one.report["memory"] or "-", trip, verdict,
    )  # fmt: skip
