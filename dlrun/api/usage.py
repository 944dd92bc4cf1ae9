"""What a job used, for Python and for notebooks."""

from __future__ import annotations

from dataclasses import dataclass

from dlrun.api import html
from dlrun.usage.job import RunUse


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of each run of a job: `runs` has all values, sizes in bytes and times in seconds."""

    runs: tuple[RunUse, ...]

    def _repr_html_(self) -> str:
        """A row for each rank, and the verdicts."""
        header = ("run", "rank", "node", "cores", "busy cores", "peak memory (MiB)")
        ranks = [
            (run.point, one.rank, one.node, one.cores, f"{one.busy_cores:.1f}", f"{one.peak / (1 << 20):.0f}")
            for run in self.runs
            for one in run.use.ranks
        ]
        verdicts = [
            (run.point, one.rule, one.evidence, one.change) for run in self.runs for one in run.verdicts
        ]
        return (
            html.table(ranks, header) + "\n" + html.table(verdicts, ("run", "verdict", "evidence", "change"))
        )
