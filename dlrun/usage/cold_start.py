"""A start whose compilers began without the entries of earlier jobs: on how many nodes, why, and how long a warm one takes."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from dlrun.errors import DlrunError
from dlrun.jobs.logs import files as log_files
from dlrun.jobs.records import jobs
from dlrun.jobs.records.jobs import Job
from dlrun.jobs.records.validation import run_state
from dlrun.model.plan import Plan
from dlrun.model.text import digits
from dlrun.node.common import cache_lines
from dlrun.plan.metrics.spec import THROUGHPUT
from dlrun.system.paths import text_of
from dlrun.usage.phases import Phases, seeded_nodes, start_up
from dlrun.usage.samples import recordings

_MOST = 200
"""Latest jobs among which earlier ones of the same name are looked for."""
_LOG = 1 << 20
"""Bytes at the end of a log that are searched for a reason."""
_NONE = "no compiled code was found in the store for this environment and kind of machine"
_NAMED = 4
"""Nodes that are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdStart:
    """Compilers began without the entries of earlier jobs on `cold` of `nodes`, for the reason `because` (None: not recorded).

    expected: seconds of start-up when warm, as the job `measured_in` took; None: no earlier job has measured it.
    """

    cold: int
    nodes: int
    because: str | None
    expected: float | None
    measured_in: str | None


class EarlierJobs:
    """The jobs of the same name and site that were submitted before a job, newest first, each read once, when it is needed."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._known: list[tuple[Job, Plan]] = []
        self._others = self._read()

    @property
    def plans(self) -> Iterator[tuple[Job, Plan]]:
        """Each with its plan; those whose plan cannot be read are left out."""
        for number in itertools.count():
            if number == len(self._known):
                self._known += itertools.islice(self._others, 1)
            if number == len(self._known):
                return
            yield self._known[number]

    def _read(self) -> Iterator[tuple[Job, Plan]]:
        mine = self.job
        for job in itertools.islice(jobs.all_jobs(jobs.home()), _MOST):
            alike = (job.name, job.site, job.remote) == (mine.name, mine.site, None)
            if alike and job.submitted and mine.submitted and job.submitted < mine.submitted:
                with suppress(DlrunError):
                    yield job, job.plan()


def cold_start(earlier: EarlierJobs, plan: Plan, run: Path, known: Phases) -> ColdStart | None:
    """The cold start of one run of a job; None if all nodes had the entries of earlier jobs, or if it is not known."""
    nodes = plan.request.nodes
    if known.seeded is None or known.seeded >= nodes:
        return None
    warm = _warm_start(earlier, plan, run)
    return ColdStart(
        cold=nodes - known.seeded,
        nodes=nodes,
        because=_reason(run),
        expected=warm.seconds if warm else None,
        measured_in=warm.job if warm else None,
    )


# What a warm start takes


class _WarmStart(NamedTuple):
    """A job whose nodes had the entries of earlier ones, and its seconds of start-up."""

    job: str
    seconds: float


def _warm_start(earlier: EarlierJobs, plan: Plan, run: Path) -> _WarmStart | None:
    """The start of the newest earlier run of the same program on nodes that had its entries; None without one.

    Entries may come from another program in the same environment: only a run that another of the same program precedes is warm.
    """
    program, below = _program(plan), run.relative_to(earlier.job.directory)
    warm: _WarmStart | None = None
    launched = 0.0
    for job, whole in earlier.plans:
        own = next((role.plan for role in whole.each_role if role.name == plan.role), whole)
        if _program(own) != program or (record := run_state(job.directory / below)) is None:
            continue
        run = job.directory / below
        if warm is not None:
            if record.get("ended", math.inf) <= launched and _has_compiled(own, run, record):
                return warm
        elif seeded_nodes(own, run, record) == own.request.nodes:
            seconds = start_up(own, run, record, recordings(run))
            if seconds is not None:
                warm, launched = _WarmStart(job.directory.name, seconds), record["launched"]
    return None


def _has_compiled(plan: Plan, run: Path, record: Mapping[str, Any]) -> bool:
    """Whether a run came as far as its first throughput, or to a good end."""
    return record.get("exit_code") == 0 or start_up(plan, run, record, recordings(run)) is not None


def _program(plan: Plan) -> tuple[object, ...]:
    """What decides how long a warm start takes: the program with its environment, and on what it runs."""
    asked = plan.request
    return (
        plan.caches and plan.caches.key,
        plan.framework,
        plan.environment.container,
        [(role.argv, role.lead) for role in plan.roles],
        plan.points,
        plan.metrics.get(THROUGHPUT),
        *(asked.nodes, asked.ranks, asked.gpus_per_node, asked.gpu_type, asked.partition, asked.constraint),
    )


# Why a start was cold


def _found(log: str, *forms: str) -> list[str]:
    """What a log has of these forms of `cache_lines`."""
    either = "|".join(".+".join(map(re.escape, form.split("{}"))) for form in forms)
    line = re.escape(cache_lines.LINE).replace(re.escape("{}"), f"({either})")
    return re.findall(f"^{line}$", log, re.MULTILINE)


def _reason(run: Path) -> str | None:
    """Why nodes began without entries; None if it is not recorded."""
    if not (run / "compiled").exists():
        log = _end(run, "job.log")
        lines = _found(log, cache_lines.STORE_NOT_USED, cache_lines.NOT_USED, cache_lines.DAMAGED)
        return lines[0] if lines else _NONE if log.startswith("dlrun: job ") else None
    numbers = sorted(int(path.name[11:]) for path in run.glob("not-seeded-*") if digits(path.name[11:]))
    hosts = text_of(run / "hosts", _LOG).split()
    names = [hosts[number] for number in numbers if number < len(hosts)]
    if not names:
        return "the compiled code of earlier jobs did not reach the nodes"
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    lines = _found(_end(run, f"stage-{numbers[0]}.log"), cache_lines.BY_ITSELF)
    why = f": {lines[-1].removeprefix(cache_lines.BY_ITSELF.format(''))}" if lines else ""
    return f"the compiled code of earlier jobs did not reach {', '.join(names[:_NAMED])}{more}{why}"


def _end(run: Path, name: str) -> str:
    """The last part of a log in `logs/`, of the last start where it is the script's; empty without it."""
    text = log_files.last_run(log_files.Log(path=run / "logs" / name), _LOG)
    return "".join(letter for letter in text if letter.isprintable() or letter == "\n")
