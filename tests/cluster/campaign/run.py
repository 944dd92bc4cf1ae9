"""Force a fault, wait for the job's end, ask why, and look what is left; then the table."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

from tests.cluster import Cluster
from tests.cluster.campaign.fault import Fault
from tests.cluster.campaign.field import FarField, Field
from tests.cluster.campaign.grounds import Ground
from tests.cluster.errors import ClusterError

SOON = 15.0
"""Seconds within which a job is to end, where nothing has to time out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one fault; `cause` and `means` are what `dlrun why` answers, `left` processes on all nodes."""

    fault: str
    seconds: float | None
    cause: str
    right: bool
    left: int
    means: str

    @property
    def well(self) -> bool:
        """True if the cause is right and nothing is left."""
        return self.right and not self.left


def force(cluster: Cluster, ground: Ground, fault: Fault) -> Outcome:
    """Force one fault, wait for the job's end and ask why."""
    field = (FarField if fault.far else Field)(cluster, {**ground.site, **fault.site}, ground)
    try:
        more = fault.before(field) if fault.before is not None else None
        outcome = _forced(field, fault, {**fault.spec, **(more if isinstance(more, Mapping) else {})})
    except (AssertionError, TimeoutError, ClusterError, OSError) as error:
        outcome = _missed(fault, error)
    finally:
        if fault.after is not None:
            fault.after(field)
    left = sum(field.left(place, fault.gone) for place in field.places())
    return replace(outcome, left=left)  # also where nobody could look before


def _missed(fault: Fault, error: Exception) -> Outcome:
    return Outcome(fault=fault.name, seconds=None, cause="-", right=False, left=0, means=f"{error!r}"[:900])


def _forced(field: Field, fault: Fault, spec: dict[str, Any]) -> Outcome:
    job = field.hand_over({"name": "fault", "framework": "torch", **spec})
    field.job_dir(job)  # known from here on
    began = monotonic()
    if fault.strike is not None:
        fault.strike(field, job)
        began = monotonic()
    if fault.blocked:
        ended = field.until(lambda: _why(field, fault, job)["cause"] != "open", fault.within)
    elif fault.unasked:
        ended = field.until(
            lambda: "exit_code" in field.record(job) and field.record(job)["ended"], fault.within
        )
    else:
        ended = field.over(job, fault.within)
    answer = _why(field, fault, job)
    if fault.blocked:
        field.dlrun("cancel", job, code=None)
    told = f"{answer['means']} {answer['line'] or ''}"
    return Outcome(
        fault=fault.name,
        seconds=round(_own(field, job) if fault.strike is None and not fault.blocked else ended - began, 1),
        cause=answer["cause"],
        right=answer["cause"] in fault.causes and all(word in told for word in fault.told),
        left=0,
        means=told,
    )


def _own(field: Field, job: str) -> float:
    """The seconds between beginning and end by the job's own record; 0 where it never began."""
    record = field.record(job)
    return float(record["ended"] - record["started"]) if record.get("ended") else 0.0


def _why(field: Field, fault: Fault, job: str) -> dict[str, Any]:
    (answer, *_) = json.loads(field.dlrun("why", f"{job}{fault.point}", "--json").stdout)["why"]
    return dict(answer)


def run(cluster: Cluster, ground: Ground, faults: Sequence[Fault], at_once: int = 3) -> list[Outcome]:
    """Force all: those that hit programs side by side, those that break nodes one after the other."""
    lock = threading.Lock()
    found: dict[str, Outcome] = {}

    def one(fault: Fault) -> None:
        outcome = force(cluster, ground, fault)
        with lock:
            found[fault.name] = outcome
            print(line(outcome), flush=True)

    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(one, [fault for fault in faults if not fault.alone]))
    for fault in faults:
        if fault.alone:
            one(fault)
    return [found[fault.name] for fault in faults]


def line(one: Outcome) -> str:
    """One row of the table."""
    seconds = "-" if one.seconds is None else f"{one.seconds:.1f}"
    return (
        f"{one.fault:<56} {seconds:>7} {one.cause:<20} {'right' if one.right else 'WRONG':<6} {one.left:>4}"
    )


HEAD = f"{'FAULT':<56} {'SECONDS':>7} {'CAUSE':<20} {'RIGHT':<6} {'LEFT':>4}"
"""The columns of `line`."""


def summary(outcomes: Sequence[Outcome]) -> str:
    """How many are right, and what is not."""
    right = sum(one.right for one in outcomes)
    left = sum(one.left for one in outcomes)
    late = [one for one in outcomes if one.seconds is not None and one.seconds > SOON]
    rows = [
        f"{right} of {len(outcomes)} causes right, {left} processes left, {len(late)} later than {SOON:.0f} s"
    ]
    rows += [f"  {one.fault}: {one.cause}: {one.means}" for one in outcomes if not one.well]
    return "\n".join(rows)
