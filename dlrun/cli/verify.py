"""`dlrun verify`: do ranks run as planned on the real nodes?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dlrun.cli.options import json_option, say, spec_options

if TYPE_CHECKING:
    from dlrun.effects.verify_compare import Checked


@click.command(epilog="Example: dlrun verify spec.yaml")
@spec_options
@click.option(
    "--here",
    is_flag=True,
    help="Run inside the allocation that this shell has (salloc, qsub -I); submit nothing.",
)
@json_option
def command(spec: Path, site: str | None, sets: tuple[str, ...], here: bool, as_json: bool) -> int:
    """Run a short job with SPEC's plan in which each rank says what it is, and compare: exit 1 on any difference.

    Ranks try the network and, over several nodes, the communication library: what that talks over is held against the
    site's fabric. Each difference is printed with its likely cause.
    """
    from dlrun.effects import verify

    done = verify.run(spec, sets=sets, site=site, here=here, say=say)
    wrong = [one for one in done.ranks if one.differences]
    if as_json:
        from dlrun.cli.output.json import emit
        from dlrun.model.plain import to_plain

        where = {"directory": str(done.job.directory), "job_id": done.job.job_id}
        emit("verify", {**where, "ranks": to_plain(done.ranks), "network": to_plain(done.network)})
        return 1 if wrong else 0
    from dlrun.cli.output.table import table

    click.echo(table(_HEADER, [_row(one) for one in done.ranks]))
    for one in wrong:
        for difference in one.differences:
            click.echo(f"rank {one.rank} {difference.what}; likely: {difference.cause}")
    if done.network.unseen:
        say(f"the library's transport was not compared: {done.network.unseen}")
    say(f"{len(done.ranks) - len(wrong)} of {len(done.ranks)} ranks are as planned")
    return 1 if wrong else 0


_HEADER = ("RANK", "HOST", "CPUS", "MEMORY", "1 MIB TO RANK 0", "LIBRARY", "VERDICT")


def _row(one: Checked) -> tuple[str, ...]:
    from dlrun.model.cpuset import format_list

    verdict = "differs" if one.differences else "as planned"
    if one.report is None:
        return (str(one.rank), "-", "-", "-", "-", "-", verdict)
    report, taken = one.report, one.report.get("round_trip")
    trip = f"{taken * 1000:.1f} ms" if taken is not None else "-"
    if report.get("interface"):
        trip += f" over {report['interface']}"
    mask = format_list(report["mask"])
    return (
        str(one.rank), report["host"], mask, report["memory"] or "-", trip, _library(report), verdict,
    )  # fmt: skip


def _library(report: Mapping[str, Any]) -> str:
    """`NCCL: InfiniBand verbs`, or what is known of it."""
    from dlrun.node.transport_lines import NAMES

    said, chosen = report.get("library") or {}, report.get("transport")
    if "failed" in said:
        return "fails"
    if chosen is None:
        return str(said.get("by", "-"))
    return f"{chosen['library']}: {NAMES.get(chosen['transport'], chosen['transport'])}"
