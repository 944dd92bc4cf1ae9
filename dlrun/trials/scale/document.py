"""A scaling study as a document, for `--json` and `table.json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dlrun.jobs.queue.study import Study
from dlrun.trials.scale.estimate import Estimate
from dlrun.trials.scale.measured import MeasuredRun
from dlrun.trials.scale.table import Table


def document(
    study: Study, runs: Sequence[MeasuredRun], table: Table, estimate: Estimate | None
) -> dict[str, Any]:
    """A study; the extrapolation is separate."""
    return {
        "directory": str(study.directory),
        "name": study.name,
        "mode": study.mode,
        "samples": study.samples,
        "unit": table.unit,
        "bound": table.bound,
        "below": table.below.nodes if table.below else None,
        "rows": table.rows,
        "runs": [
            {
                "nodes": run.plan.request.nodes,
                "ranks": run.plan.request.ranks,
                "state": str(run.result.state),
                "throughput": run.reading.value if run.reading else None,
                "values": list(run.reading.values) if run.reading else [],
                "skipped": run.reading.skipped if run.reading else None,
                "by": run.reading.by if run.reading else None,
                "elapsed": run.result.elapsed,
                "node_hours": run.result.node_hours,
                "units": run.result.units,
                "directory": str(run.result.directory),
            }
            for run in runs
        ],
        "estimate": estimate,
    }
