"""The scheduler allocation of this shell, from the variables that the scheduler has set."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from dlrun import backends
from dlrun.errors import DlrunError, OperationFailed
from dlrun.model.text import digits
from dlrun.schedulers.protocol import Allocation, Granted
from dlrun.system.process import run


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


class HeldAllocation(NamedTuple):
    """The id of an allocation, and what it has."""

    job_id: str
    granted: Granted


def held(scheduler: str, environment: Mapping[str, str]) -> HeldAllocation | None:
    """The allocation of this scheduler in which this environment is; None outside of one.

    Raises OperationFailed if the allocation has ended, or its nodes cannot be found out.
    """
    back_end = backends.scheduler(scheduler)
    allocation = back_end.ALLOCATION
    job_id = environment.get(allocation.job_id, "") if allocation is not None else ""
    if allocation is None or not job_id:
        return None
    if allocation.parse is not None:
        done = run((*allocation.query, job_id), environment=environment)
        grant = allocation.parse(done.stdout)
        reason = done.stderr.strip()
    elif allocation.hosts:
        if not environment.get(allocation.hosts):
            return None
        grant, reason = Granted(hosts=()), ""
        try:
            lines = Path(environment[allocation.hosts]).read_text(encoding="utf-8").splitlines()
            hosts = dict.fromkeys(line.split()[0] for line in lines if line.strip())
            grant = Granted(hosts=tuple(hosts))
        except (OSError, UnicodeDecodeError) as error:
            reason = str(error)
    else:
        done = run(("bash", "-c", back_end.HOSTS), environment=environment)
        grant, reason = Granted(hosts=tuple(done.stdout.split())), done.stderr.strip()
    if not grant.hosts:
        raise OperationFailed(
            f"the nodes of allocation {job_id} cannot be found out: {reason.partition(chr(10))[0] or 'no answer'}",
            help=f"it may have ended: get another with `{allocation.line()}`",
        )
    return HeldAllocation(job_id, grant)


def granted(environment: Mapping[str, str]) -> int | None:
    """The number of nodes of the allocation of this environment; None outside of an allocation.

    A scheduler with a command to ask may run inside an allocation of another one, whose variables remain.
    """
    known = filter(None, (backends.scheduler(name).ALLOCATION for name in backends.SCHEDULERS))
    # Variables first: they are exact, while a command may report an outer allocation.
    for allocation in sorted(known, key=lambda allocation: not allocation.count):
        if count := nodes(allocation, environment):
            return count
    return None
