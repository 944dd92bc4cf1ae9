"""What Grid Engine counted of a job: `qacct -j`, which has the script and each process that qrsh started."""

from __future__ import annotations

import re

from dlrun.model.job import Accounted

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def ask(job_id: str) -> list[str]:
    """The arguments that print it, for a job or a task of an array (`12[3]`), which count from 1."""
    number, _, task = job_id.rstrip("]").partition("[")
    return ["qacct", "-j", number, *(["-t", str(int(task) + 1)] if task else [])]


def read(text: str) -> Accounted | None:
    """The CPU time of all processes together, and the most memory (address space) that one of them had."""
    times = re.findall(r"^cpu +(\d+(?:\.\d+)?)s?\s*$", text, re.MULTILINE)
    sizes = re.findall(r"^maxvmem +(\d+(?:\.\d+)?)([KMGT]?)B?\s*$", text, re.MULTILINE)
    if not times:
        return None
    return Accounted(
        source="qacct",
        cpu=sum(map(float, times)),
        memory=max((float(size) * _UNITS[unit] for size, unit in sizes), default=None),
    )
