"""`dlrun verify`: a short job that compares ranks and network with the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dlrun.terminal.help_page import examples
from dlrun.terminal.options import json_option, spec_options
from dlrun.terminal.printing import echo, emit, notice

if TYPE_CHECKING:
    from dlrun.site.verify.report import Checked


@click.command(epilog=examples("dlrun verify spec.yaml"))
@spec_options
@click.option(
    "--here",
    is_flag=True,
    help="Run in the allocation of this shell (salloc, qsub -I) instead of submitting a job.",
)
@json_option
def command(spec: Path, site: str | None, sets: tuple[str, ...], here: bool, as_json: bool) -> int:
    """Run a short job with the plan of SPEC that compares the binding of each rank with the plan; exit 1 on any difference.

    The ranks also test the network and, on several nodes, the communication library: its transport is compared with the
    site's fabric. Each difference is printed with its likely cause.
    """
    from dlrun.site.verify import job as verify_job

    done = verify_job.run(spec, sets=sets, site=site, here=here, notice=notice)
    wrong = [checked for checked in done.ranks if checked.differences]
    if as_json:
        where = {"directory": str(done.job.directory), "job_id": done.job.job_id}
        emit(
            "verify",
            {
                **where,
                "ranks": done.ranks,
                "nodes": done.nodes,
                "network": done.network,
            },
        )
        return 1 if wrong else 0
    from dlrun.site.verify.report import grouped
    from dlrun.terminal.table import Column, show

    header, *rows = table_of(done.ranks)
    drops = {"MEMORY": 3, "LIBRARY": 1, "1 MIB TO RANK 0": 2}
    show([Column(title=title, state=title == "VERDICT", drop=drops.get(title, 0)) for title in header], rows)
    from dlrun.jobs.records.divisions import divisions

    for line in divisions(done.job.directory):
        notice(line)
    for node in done.nodes:
        echo(node.text())
    for who, difference in grouped(done.ranks):
        echo(f"{who}: {difference.what}; likely: {difference.cause}")
    if done.network.unseen:
        notice(f"the library's transport could not be compared: {done.network.unseen}")
    notice(f"{len(done.ranks) - len(wrong)} of {len(done.ranks)} ranks are as planned")
    return 1 if wrong else 0


def table_of(ranks: Sequence[Checked]) -> list[tuple[str, ...]]:
    """Header and rows; there are columns for GPUs and adapters if the plan has any."""
    from dlrun.model.cpuset import format_list

    with_gpus = any(checked.planned.gpus or _gpus(checked) != "-" for checked in ranks)
    with_nics = any(checked.planned.nic for checked in ranks)
    header = ["RANK", "HOST", "CPUS", "MEMORY"]
    header += ["GPUS"] * with_gpus + ["ADAPTER"] * with_nics
    header += ["1 MIB TO RANK 0", "LIBRARY", "VERDICT"]
    rows: list[tuple[str, ...]] = [tuple(header)]
    for checked in ranks:
        middle = [_gpus(checked)] * with_gpus + [_adapter(checked)] * with_nics
        verdict = "differs" if checked.differences else "as planned"
        if (its := checked.report) is None:
            rows.append((str(checked.rank), *["-"] * (len(header) - 2), verdict))
            continue
        start = (str(checked.rank), its["host"], format_list(its["mask"]), its["memory"] or "-")
        rows.append((*start, *middle, _trip(its), _library(its), verdict))
    return rows


def _gpus(checked: Checked) -> str:
    seen = (checked.report or {}).get("gpus") or {}
    # Some schedulers write -1 where a job has no GPU, others NoDevFiles.
    shown = (value for value in seen.values() if value not in ("-1", "NoDevFiles"))
    return ";".join(dict.fromkeys(shown)) or "-"


def _adapter(checked: Checked) -> str:
    """`mlx5_0: active`."""
    if checked.planned.nic is None:
        return "-"
    return f"{checked.planned.nic}: {((checked.report or {}).get('adapters') or {}).get(checked.planned.nic, 'absent')}"


def _trip(report: Mapping[str, Any]) -> str:
    """`1.2 ms over ib0`."""
    if "round_trip" not in report:
        return "fails" if report.keys() & {"unsent", "unreached"} else "-"
    trip = f"{report['round_trip'] * 1000:.1f} ms"
    match report.get("interface"):
        case "lo":
            return f"{trip} in its node"
        case None:
            return trip
        case name:
            return f"{trip} over {name}"


def _library(report: Mapping[str, Any]) -> str:
    """`NCCL: InfiniBand verbs`, or what is known of it."""
    from dlrun.node.checks.transport_lines import NAMES

    library, chosen = report.get("library") or {}, report.get("transport")
    if "failed" in library:
        return "fails"
    if chosen is None:
        return str(library.get("by", "-"))
    return f"{chosen['library']}: {NAMES.get(chosen['transport'], chosen['transport'])}"
