"""Usage of an ended job from `qacct -j`, with one block for the script and one for each process that qrsh started."""

from __future__ import annotations

import re

from dlrun.model.job import Accounted

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def ask(job_id: str) -> list[str]:
    """The qacct arguments for a job or an array task (`12[3]`, which is Grid Engine's task 4)."""
    number, _, task = job_id.rstrip("]").partition("[")
    return ["qacct", "-j", number, *(["-t", str(int(task) + 1)] if task else [])]


def read(text: str) -> Accounted | None:
    """CPU time of all processes in seconds, and the largest address space (maxvmem) of one of them in bytes."""
    times = re.findall(r"^cpu +(\d+(?:\.\d+)?)s?\s*$", text, re.MULTILINE)
    sizes = re.findall(r"^maxvmem +(\d+(?:\.\d+)?)([KMGT]?)B?\s*$", text, re.MULTILINE)
    if not times:
        return None
    return Accounted(
        source="qacct",
        cpu=sum(map(float, times)),
        memory=max((float(size) * _UNITS[unit] for size, unit in sizes), default=None),
    )
