"""Output of `dlrun usage`: bars of used against requested resources, ranks with sparklines, verdicts."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dlrun.model.units import many
from dlrun.terminal.printing import echo
from dlrun.terminal.table import Column, show
from dlrun.usage.formats import bits, clock, meter, quantity, size, sparkline
from dlrun.usage.overview import bars, nodes_that_differ, of_cold_start, shared_file_systems, times
from dlrun.usage.verdicts import BRIEF, peak_of

if TYPE_CHECKING:
    from dlrun.jobs.records.jobs import Job
    from dlrun.model.plan import Plan
    from dlrun.usage.job import RunUse
    from dlrun.usage.summary import RankUse

from dlrun import backends
from dlrun.jobs.clusters import clients
from dlrun.jobs.records.jobs import Job
from dlrun.model.job import Accounted
from dlrun.system.process import answer

_BAR = 20
_FEW = 16
"""Maximum number of ranks that are all shown; of more, only a selection (`chosen`)."""


def show_run(job: Job, plan: Plan, run: RunUse, *, every_rank: bool) -> None:
    """Print everything about one run."""
    point = f", role {run.role}" if run.role else "" if run.point is None else f", point {run.point}"
    _prose(f"{job.directory.name}{point}: {run.status.state}; {times(run)}")
    if (cold := of_cold_start(run)) is not None:
        _prose(f"start-up: {cold}")
    if not run.use.nodes:
        why = (
            "its spec has `usage: false`"
            if not plan.usage
            else "nothing was recorded in `usage/`: no rank ran, or the nodes have no Python 3"
        )
        echo(f"not measured: {why}")
        _verdicts(run)
        return
    echo("")
    for name, part, text in bars(plan, run):
        _bar(name, part, text)
    echo("")
    shown = run.use.ranks if every_rank else chosen(run.use.ranks)
    _ranks(shown)
    if left := len(run.use.ranks) - len(shown):
        echo(f"and {left} more; `--ranks` shows all")
    _nodes(run)
    _gpus(run)
    _links(run)
    _verdicts(run)
    _compared(job, run)
    _missing(run)


def _prose(text: str, indent: str = "  ", *, head: str = "", style: str = "") -> None:
    """Print a sentence: wrapped between words on a terminal, else on one line, for other programs.

    On a terminal the beginning `head` of the text is drawn in this style.
    """
    from dlrun.terminal.colour import drawn

    if sys.stdout.isatty():
        width = max(40, shutil.get_terminal_size().columns)
        lines = textwrap.wrap(
            text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
        text = "\n".join(lines)
    if head and drawn():
        from dlrun.terminal.drawing import show_line

        show_line((head, style), (text[len(head) :], ""))
    else:
        echo(text)


def _bar(name: str, part: float | None, text: str) -> None:
    from dlrun.terminal.colour import drawn

    bar = " " * _BAR if part is None else meter(part, _BAR)
    share = " " * 6 if part is None else "  <1% " if 0 < part < 0.005 else f" {part:4.0%} "
    label = f"{name:<11} "
    if drawn():
        from dlrun.terminal.drawing import show_line

        show_line(
            (label, ""), (bar, "red" if part is not None and part > 0.95 else "cyan"), (share + text, "")
        )
    else:
        echo(f"{label}{bar}{share}{text}")


def chosen(ranks: Sequence[RankUse]) -> list[RankUse]:
    """The ranks to show: all if they are few, else the first, and those with extreme CPU time, memory and idle time."""
    if len(ranks) <= _FEW:
        return list(ranks)
    wanted = {ranks[0].rank}
    for key in ("used", "peak", "idle"):
        ordered = sorted(ranks, key=lambda rank, key=key: float(getattr(rank, key)))  # type: ignore[misc]
        wanted |= {ordered[0].rank, ordered[-1].rank}
    return [rank for rank in ranks if rank.rank in wanted]


def _ranks(ranks: Sequence[RankUse]) -> None:
    top = max((value for rank in ranks for _, value in rank.cpu_curve), default=0.0)
    memory = max((value for rank in ranks for _, value in rank.memory_curve), default=0.0)
    near = any(rank.near is not None for rank in ranks)
    elsewhere = any(rank.ran_on not in ("", rank.allowed) for rank in ranks)
    columns = [
        Column(title="RANK"), Column(title="NODE", drop=1), Column(title="CORES", right=True, drop=2),
        *([Column(title="RAN ON", drop=8)] if elsewhere else []),
        Column(title="USED", right=True), Column(title="CORES OVER TIME", drop=3), Column(title="PEAK", right=True),
        Column(title="MEMORY OVER TIME", drop=4), Column(title="READ", right=True, drop=5),
        Column(title="WRITTEN", right=True, drop=6),
        *([Column(title="NEAR", right=True, drop=7)] if near else []),
    ]  # fmt: skip
    rows = [
        (
            rank.rank, rank.node, str(rank.cores or "-"), *([rank.ran_on or "-"] if elsewhere else []),
            f"{rank.used:.2f}", sparkline(rank.cpu_curve, top), size(rank.peak),
            sparkline(rank.memory_curve, memory), size(rank.read), size(rank.written),
            *(["-" if rank.near is None else f"{rank.near:.0%}"] if near else []),
        )
        for rank in ranks
    ]  # fmt: skip
    if rows:
        show(columns, rows)


def _nodes(run: RunUse) -> None:
    columns = [
        Column(title="NODE"), Column(title="USED", right=True), Column(title="MEMORY", right=True),
        Column(title="LIMIT", right=True, drop=3), Column(title="NETWORK", right=True),
        Column(title="DISK BUSY", right=True, drop=2), Column(title="WAITS FOR", drop=4),
    ]  # fmt: skip
    rows = [
        (
            line.node, f"{line.used:.2f}", size(line.memory), size(line.limit), bits(line.network),
            "-" if line.disk is None else f"{line.disk:.0%}",
            ", ".join(f"{what} {part:.0%}" for what, part in line.waits.items() if part >= 0.01) or "-",
        )
        for line in nodes_that_differ(run.use)
    ]  # fmt: skip
    if rows:
        echo("")
        show(columns, rows)


def _gpus(run: RunUse) -> None:
    columns = [
        Column(title="GPU"), Column(title="NODE", drop=1), Column(title="RANKS", drop=2), Column(title="BUSY", right=True),
        Column(title="BUSY OVER TIME", drop=4), Column(title="MEMORY", right=True), Column(title="POWER", right=True, drop=3),
        Column(title="CLOCK", right=True, drop=5),
    ]  # fmt: skip
    rows = [
        (
            str(gpu.index), gpu.node, " ".join(gpu.ranks) or "-", quantity(gpu.busy, "%"),
            sparkline(gpu.busy_curve, 100), size(gpu.memory), quantity(gpu.power, "W"), quantity(gpu.clock, "MHz"),
        )
        for gpu in run.use.gpus
    ]  # fmt: skip
    if rows:
        echo("")
        show(columns, rows)


def _links(run: RunUse) -> None:
    busiest = [max(node.links, key=lambda link: link.mean) for node in run.use.nodes if node.links]
    if busiest and len(run.use.nodes) > 1:
        link = max(busiest, key=lambda link: link.mean)
        limit = f" of {bits(link.limit)}" if link.limit else ""
        echo("")
        _prose(
            f"network: `{link.name}` of {link.node} carried {bits(link.mean)}{limit} on average, {bits(link.most)} at most"
        )
    for file_system in shared_file_systems(run.use):
        _prose(
            f"file system {file_system.name}: {size(file_system.read)} read, {size(file_system.written)} written "
            "on all nodes together"
        )


def _verdicts(run: RunUse) -> None:
    echo("")
    if run.use.nodes and not run.verdicts:
        brief = run.use.seconds < BRIEF
        echo(
            f"too short for verdicts: less than {BRIEF:.0f} s"
            if brief
            else "no bottleneck was found in what was measured"
        )
    for verdict in run.verdicts:
        _prose(f"{verdict.rule}: {verdict.evidence}", "    ", head=f"{verdict.rule}:", style="bold yellow")
        if verdict.change:
            _prose(f"  change: {verdict.change}", "    ", head="  change:", style="bold green")


def _compared(job: Job, run: RunUse) -> None:
    """Print the CPU time beside that of the scheduler's accounting, or of the job's cgroups."""
    if run.role is not None:
        return  # both count the whole job
    account = accounted(job, run.point) if run.status.state.final else None
    cpu, memory = (
        sum(rank.cpu for rank in run.use.ranks),
        max((rank.peak for rank in run.use.ranks), default=0.0),
    )
    kernel = [node.job_cpu for node in run.use.nodes if node.job_cpu is not None]
    if account is not None and account.cpu is not None:
        text = f"; {account.source} counted {clock(account.cpu)} of CPU time"
        text += f" and {size(account.memory)} of memory" if account.memory is not None else ""
        echo("")
        _prose(f"CPU time {clock(cpu)}, peak of a rank {size(memory)}{text}")
    elif kernel and len(kernel) == len(run.use.nodes):
        echo(f"\nCPU time {clock(cpu)}; the job's cgroups counted {clock(sum(kernel))}")


def _missing(run: RunUse) -> None:
    whats = list(dict.fromkeys(text for node in run.use.nodes for text in node.missing))
    if whats:
        echo("")
    for what in whats:
        where = [node.node for node in run.use.nodes if what in node.missing]
        nodes = where[0] if len(where) == 1 else many(len(where), "node")
        _prose(f"not measured on {nodes}: {what}")
    for node in run.use.nodes:
        if not node.complete and run.status.state.final:
            echo(f"the recording of {node.node} stops after {clock(node.seconds)}")


def show_roles(job: Job, plan: Plan, runs: Sequence[RunUse], *, every_rank: bool) -> None:
    """Print the roles of a job: a table of all, then each of them."""
    from dlrun.jobs.queue import role_states

    known = {role.role: role for role in role_states.of(job)}
    plans: dict[str | None, Plan] = {role.name: role.plan for role in plan.each_role}
    rows = []
    for run in runs:
        state = known.get(run.role or "", role_states.RoleState(role=run.role or ""))
        ready = "-" if state.ready_after is None else clock(state.ready_after)
        rows.append(
            (
                state.role,
                str(plans.get(run.role, plan).request.nodes),
                ready,
                str(state.restarts),
                *_cells(run)[1:],
            )
        )
    columns = [
        Column(title="ROLE"), Column(title="NODES", right=True), Column(title="READY", right=True, drop=3),
        Column(title="RESTARTS", right=True, drop=4), *_columns()[1:],
    ]  # fmt: skip
    show(columns, rows)
    for run in runs:
        echo("")
        show_run(job, plans.get(run.role, plan), run, every_rank=every_rank)


def show_runs(plan: Plan, runs: Sequence[RunUse]) -> None:
    """Print a sweep as a table, one line for each of its points."""
    names = list(plan.points[0].parameters) if plan.points else []
    rows = []
    for run in runs:
        parameters = plan.points[run.point].parameters if plan.points and run.point is not None else {}
        rows.append((str(run.point), *(parameters.get(name, "") for name in names), *_cells(run)))
    show([Column(title="POINT"), *(Column(title=name, drop=4) for name in names), *_columns()], rows)


def show_study(runs: Sequence[tuple[str, str, RunUse]]) -> None:
    """Print a scaling study as a table: size and name of each run."""
    rows = [(size_of, name, *_cells(run)) for size_of, name, run in runs]
    show([Column(title="SIZE"), Column(title="RUN", drop=4), *_columns()], rows)


def _columns() -> list[Column]:
    return [
        Column(title="STATE", state=True), Column(title="TIME", right=True), Column(title="CORES", right=True),
        Column(title="PEAK", right=True), Column(title="GPUS", right=True, drop=2), Column(title="VERDICTS"),
    ]  # fmt: skip


def _cells(run: RunUse) -> tuple[str, ...]:
    """A run in the columns of `_columns`: its mean cores, the peak of its fullest node, its verdicts."""
    busy = [gpu.busy for gpu in run.use.gpus if gpu.busy is not None]
    return (
        str(run.status.state), clock(run.elapsed), f"{sum(rank.used for rank in run.use.ranks):.2f}",
        size(max((peak_of(run.use, node) for node in run.use.nodes), default=None)),
        f"{sum(busy) / len(busy):.0f} %" if busy else "-", ", ".join(verdict.rule for verdict in run.verdicts) or "-",
    )  # fmt: skip


# The scheduler's accounting of a run, for comparison with the measurement.

_WITHIN = 20.0
"""Time limit of the query in seconds."""


def accounted(job: Job, task: int | None) -> Accounted | None:
    """The scheduler's accounting of a job; None without accounting or an answer."""
    reader = backends.scheduler(job.scheduler).accounting
    if reader is None or job.job_id is None:
        return None
    try:
        text = answer(clients.runner(job, _WITHIN), reader.ask(job.shown_id(task)))
        return reader.read(text) if text else None
    except ValueError:
        return None
