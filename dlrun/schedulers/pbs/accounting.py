"""Usage of a job in OpenPBS, from `qstat -xf`."""

from __future__ import annotations

import re

from dlrun.model.job import Accounted
from dlrun.schedulers.dates import seconds
from dlrun.schedulers.pbs.amounts import size


def ask(job_id: str) -> list[str]:
    """The qstat arguments for a job."""
    return ["qstat", "-x", "-f", job_id]


def read(text: str) -> Accounted | None:
    """`resources_used.cput` in seconds and `resources_used.mem` in bytes, summed over all nodes."""
    used: dict[str, str] = dict(re.findall(r"resources_used\.(cput|mem) = (\S+)", text))
    if not used:
        return None
    return Accounted(
        source="qstat -xf",
        cpu=seconds(used.get("cput", "")),
        memory=size(used.get("mem", "")),
    )
