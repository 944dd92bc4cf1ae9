"""The nodes that failed a job's checks: a list in the job directory, with an expiry time each."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from dlrun import backends
from dlrun.jobs.records.validation import MOST
from dlrun.model.hostlist import expand, fold
from dlrun.model.plan import Directive, Plan
from dlrun.model.text import digits
from dlrun.system.paths import text_of

FILE = "bad-nodes"


def read(directory: Path, now: float | None = None) -> dict[str, str]:
    """Node -> reason, for nodes that are still to be excluded; now: seconds since 1970."""
    reasons = {}
    for line in text_of(directory / FILE, MOST).splitlines():
        host, until, why = (*line.split(maxsplit=2), "", "", "")[:3]
        if digits(until) and int(until) > (time.time() if now is None else now):
            reasons[host] = why
    return reasons


def leave_out(plan: Plan, bad: Mapping[str, str]) -> Plan:
    """The plan with these nodes excluded, by a directive if the scheduler has one, else by the job itself."""
    if not bad:
        return plan
    option = backends.scheduler(plan.scheduler).EXCLUDE
    if option is None:
        if plan.node_checks is None:
            return plan
        known = tuple(dict.fromkeys([*plan.node_checks.leave_out, *bad]))
        return replace(plan, node_checks=replace(plan.node_checks, leave_out=known))
    request = replace(plan.request, exclude=tuple(dict.fromkeys([*plan.request.exclude, *bad])))
    because = f"they failed this job's checks: {'; '.join(f'{host} {why}' for host, why in bad.items())}"
    new = Directive(
        text=f"{option}{fold(h for name in request.exclude for h in expand(name))}", because=because
    )
    others = tuple(d for d in plan.directives if not d.text.startswith(option))
    return replace(plan, request=request, directives=(*others, new))


def without_directive(plan: Plan) -> str:
    """The addition to a message about excluded nodes if the scheduler has no directive for them; else empty."""
    because = backends.scheduler(plan.scheduler).NO_EXCLUDE
    return f" ({because})" if because else ""
