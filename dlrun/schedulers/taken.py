"""What a scheduler took a job as, and how that differs from the request: submission plug-ins of sites change jobs."""

from __future__ import annotations

from collections.abc import Iterator

from dlrun.model.plan import Request
from dlrun.model.record import record
from dlrun.model.units import Duration


@record(frozen=True, slots=True, kw_only=True)
class Taken:
    """The request of a job as its scheduler has it; None: not reported. walltime: in seconds."""

    partition: str | None = None
    walltime: int | None = None
    nodes: int | None = None
    account: str | None = None
    qos: str | None = None


_ROUNDED = 60
"""Seconds by which a walltime may differ: Slurm and some others count in minutes."""


def differences(request: Request, taken: Taken) -> Iterator[str]:
    """`partition low, not gpu`: what the request names and the scheduler has otherwise."""
    asked, got = request.partition, taken.partition
    # A list of partitions stays one until the start; of PBS a queue may be NAME@SERVER.
    if asked and got and got not in {asked, *asked.split(","), asked.partition("@")[0]}:
        yield f"partition `{got}`, not `{asked}`"
    if request.walltime and taken.walltime and abs(taken.walltime - request.walltime) >= _ROUNDED:
        yield f"walltime {Duration(taken.walltime)}, not {Duration(request.walltime)}"
    nodes = request.nodes + request.spare_nodes
    if taken.nodes and taken.nodes not in (request.nodes, nodes):
        yield f"{taken.nodes} nodes, not {nodes}"
    for name, had, has in (
        ("account", request.account, taken.account),
        ("QOS", request.qos, taken.qos),
    ):
        if had and has and had.lower() != has.lower():
            yield f"{name} `{has}`, not `{had}`"
