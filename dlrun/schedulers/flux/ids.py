"""Ids of Flux jobs, and of sweeps: Flux has no arrays, so each point is a job, and a sweep's id lists its points'.

An id is 64 bits, which Flux writes in base 58 behind `ƒ`, or behind `f` where the locale has no such letter, and takes
in any spelling (flux_jobid_encode(3)). Records keep the one with `f`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_DIGITS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
"""Bitcoin's base 58, which Flux uses."""
ONE = rf"(?:f[{_DIGITS}]{{1,12}}|[0-9]{{1,20}})"
"""Regular expression of one job's id; eleven digits of base 58 hold 64 bits."""
ID = rf"{ONE}(?:,{ONE})*"
"""Regular expression of an id in a record: a job's, or those of a sweep's points in order."""


def plain(text: str) -> str | None:
    """An id as records have it, from how a client prints it; None if it is not one."""
    found = re.fullmatch(ONE, text.strip().replace("ƒ", "f"))
    return found[0] if found else None


def each(job_ids: Iterable[str]) -> Sequence[str]:
    """The ids of single jobs in ids of jobs and sweeps."""
    return [one for job_id in job_ids for one in job_id.split(",")]
