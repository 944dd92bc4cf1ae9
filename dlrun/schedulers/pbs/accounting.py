"""Usage of a job in OpenPBS, from `qstat -xf`."""

from __future__ import annotations

import re

from dlrun.model.job import Accounted

_UNITS = {"b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}


def ask(job_id: str) -> list[str]:
    """The qstat arguments for a job."""
    return ["qstat", "-x", "-f", job_id]


def read(text: str) -> Accounted | None:
    """`resources_used.cput` in seconds and `resources_used.mem` in bytes, summed over all nodes."""
    found: dict[str, str] = dict(re.findall(r"resources_used\.(cput|mem) = (\S+)", text))
    memory = re.fullmatch(r"(\d+)([kmgt]?b)", found.get("mem", ""))
    if not found:
        return None
    return Accounted(
        source="qstat -xf",
        cpu=_seconds(found["cput"]) if "cput" in found else None,
        memory=float(memory[1]) * _UNITS[memory[2]] if memory else None,
    )


def _seconds(text: str) -> float:
    seconds = 0
    for part in text.split(":"):
        seconds = 60 * seconds + int(part)
    return float(seconds)
