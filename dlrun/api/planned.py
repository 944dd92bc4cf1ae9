"""A plan that may be looked at and submitted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dlrun.affinity.drawing.svg import svg
from dlrun.api import html
from dlrun.jobs.submission.files import files
from dlrun.model.plan import Plan
from dlrun.system.inputs.spec import Inputs, topology_for_spec
from dlrun.system.paths import jobs_home


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan of a job (`plan`: all of its values), and the spec and site that it was made from."""

    plan: Plan
    inputs: Inputs

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings that the commands print."""
        return self.plan.warnings

    @property
    def reasons(self) -> dict[str, str]:
        """Key -> reason of its value, as `dlrun explain` prints it."""
        return {decision.key: decision.because for decision in self.plan.decisions}

    def scripts(self) -> dict[str, str]:
        """The files of the job directory, such as `job.sh` and `rank.sh`, by name."""
        return files(self.plan, self.inputs, Path(jobs_home() / self.plan.name).absolute())

    def __repr__(self) -> str:
        request = self.plan.request
        return (
            f"<plan {self.plan.name} on {self.plan.site}: {request.nodes} × {request.ranks_per_node} ranks>"
        )

    def _repr_html_(self) -> str:
        """The decisions with their reasons, and the cores of each rank of a node, as a table and as a picture."""
        rows = [(decision.key, decision.value, decision.because) for decision in self.plan.decisions]
        shown = html.table(rows, ("key", "value", "reason"), f"{self.plan.name} on {self.plan.site}")
        placement = self.plan.binding.placement
        if placement is None:
            return shown
        ranks = [
            (index, ",".join(map(str, rank.mask)), ",".join(map(str, rank.gpus)))
            for index, rank in enumerate(placement.ranks)
        ]
        topology = topology_for_spec(self.inputs)
        picture = svg(placement, topology) if topology is not None else ""
        return "\n".join([shown, html.table(ranks, ("rank", "CPUs", "GPUs"), "each node"), picture])
