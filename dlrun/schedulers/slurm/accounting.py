"""Usage of a job in Slurm's accounting, from `sacct`."""

from __future__ import annotations

from dlrun.model.job import Accounted

_ASK = ("sacct", "-n", "-P", "--units=K", "-o", "JobID,TotalCPU,MaxRSS", "-j")


def ask(job_id: str) -> list[str]:
    """The sacct arguments for a job or an array task (`12[3]`)."""
    return [*_ASK, job_id.replace("[", "_").rstrip("]")]


def read(text: str) -> Accounted | None:
    """CPU time of all steps in seconds, and the largest MaxRSS of a task in bytes."""
    rows = [line.split("|") for line in text.splitlines() if line.count("|") == 2]
    if not rows:
        return None
    memory = [float(row[2].rstrip("K")) * 1024 for row in rows if row[2]]
    # The job's own row already sums up its steps: adding both would count the time twice.
    steps = [_seconds(row[1]) for row in rows if "." in row[0]]
    return Accounted(
        source="sacct",
        cpu=sum(steps) if steps else _seconds(rows[0][1]),
        memory=max(memory, default=None),
    )


def _seconds(text: str) -> float:
    """Seconds of `1-02:03:04`, `02:03:04` or `03:04.500`."""
    days, _, clock = text.rpartition("-")
    seconds = 0.0
    for part in clock.split(":"):
        seconds = 60 * seconds + float(part)
    return 86400 * int(days or 0) + seconds
