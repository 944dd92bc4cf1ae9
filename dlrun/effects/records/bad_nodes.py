"""The nodes that failed a job's checks: a list beside the job, with the time until which each is left out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from dlrun import backends
from dlrun.model.hostlist import expand, fold
from dlrun.model.plan import Directive, Plan
from dlrun.model.text import digits

FILE = "bad-nodes"


def read(directory: Path, now: float | None = None) -> dict[str, str]:
    """The nodes that are still to be left out, with the reason; empty if none ever failed."""
    try:
        lines = (directory / FILE).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    found = {}
    for line in lines:
        host, until, why = (*line.split(maxsplit=2), "", "", "")[:3]
        if digits(until) and int(until) > (time.time() if now is None else now):
            found[host] = why
    return found


def leave_out(plan: Plan, bad: Mapping[str, str]) -> Plan:
    """The same plan without these nodes: the scheduler excludes them (if it can), or the job does."""
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


def how(plan: Plan) -> str:
    """What to add to a message on excluded nodes: nothing if the scheduler can exclude them."""
    because = backends.scheduler(plan.scheduler).NO_EXCLUDE
    return f" ({because})" if because else ""
