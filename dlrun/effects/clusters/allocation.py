"""The scheduler allocation of this shell, from the variables that the scheduler has set."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dlrun import backends
from dlrun.effects.process import run
from dlrun.errors import DlrunError
from dlrun.model.text import digits
from dlrun.schedulers.protocol import Allocation


def nodes(allocation: Allocation, environment: Mapping[str, str]) -> int:
    """The number of nodes of an allocation; 0 if unknown, or if this environment is not in such an allocation."""
    if not environment.get(allocation.job_id):
        return 0
    if allocation.nodes:
        count = environment.get(allocation.nodes, "")
        return int(count) if digits(count) else 0
    try:
        if allocation.count:
            output = run(allocation.count).stdout.strip()
            return int(output) if digits(output) else 0
        lines = Path(environment[allocation.hosts or ""]).read_text(encoding="utf-8").splitlines()
    except (OSError, KeyError, DlrunError):
        return 0
    return len({line.split()[0] for line in lines if line.strip()})


def granted(environment: Mapping[str, str]) -> int | None:
    """The number of nodes of the allocation of this environment; None outside of an allocation.

    A scheduler with a command to ask (Flux) may run inside an allocation of another one, whose variables remain.
    """
    known = [one for name in backends.SCHEDULERS if (one := backends.scheduler(name).ALLOCATION)]
    # Variables first: they are exact, while a command may report an outer allocation.
    for allocation in sorted(known, key=lambda one: not one.count):
        if count := nodes(allocation, environment):
            return count
    return None
