"""The allocation that this shell is in, by the variables that its scheduler has set."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dlrun import backends
from dlrun.effects.process import run
from dlrun.errors import DlrunError
from dlrun.model.text import digits
from dlrun.schedulers.protocol import Allocation


def nodes(allocation: Allocation, environment: Mapping[str, str]) -> int:
    """How many nodes a shell with this environment has; 0 where it does not know, or is in no such allocation."""
    if not environment.get(allocation.job_id):
        return 0
    if allocation.nodes:
        count = environment.get(allocation.nodes, "")
        return int(count) if digits(count) else 0
    try:
        if allocation.count:
            told = run(allocation.count).stdout.strip()
            return int(told) if digits(told) else 0
        lines = Path(environment[allocation.hosts or ""]).read_text(encoding="utf-8").splitlines()
    except (OSError, KeyError, DlrunError):
        return 0
    return len({line.split()[0] for line in lines if line.strip()})


def granted(environment: Mapping[str, str]) -> int | None:
    """How many nodes the allocation has that a shell with this environment is in; None if it is in none.

    A scheduler that must be asked may run inside the allocation of another one, which has left its variables.
    """
    known = [one for name in backends.SCHEDULERS if (one := backends.scheduler(name).ALLOCATION)]
    for allocation in sorted(known, key=lambda one: not one.count):
        if count := nodes(allocation, environment):
            return count
    return None
