"""`dlrun top` in plain text: one line for the job, one for each rank."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dlrun.effects.usage.formats import bits, clock, size

if TYPE_CHECKING:
    from dlrun.effects.usage.live import Live


def headline(live: Live) -> str:
    """State, time, and the latest value of each metric."""
    metrics = [f"{name} {one.value:.6g} {one.unit}".rstrip() for name, one in live.metrics.items()]
    reason = f" ({live.status.reason})" if live.status.reason and not live.status.state.final else ""
    running = f"for {clock(live.running)}" if live.running is not None else "not started"
    return ", ".join([f"{live.status.state}{reason}", running, *metrics])


def lines(live: Live) -> Iterator[str]:
    """The lines of one update."""
    now = time.strftime("%H:%M:%S")
    yield f"{now} {headline(live)}"
    for node in live.nodes:
        network = f", {node.interface} {bits(node.network)}" if node.interface else ""
        yield f"{now} {node.node}: memory {size(node.memory)} of {size(node.limit)}{network}"
    for rank in live.ranks:
        gpus = f", GPU {rank.gpus} {rank.busy:.0f} %" if rank.busy is not None else ""
        yield f"{now} {rank.rank} on {rank.node}: {rank.cores:.2f} cores, {size(rank.memory)}{gpus} | {rank.line[:120]}"
