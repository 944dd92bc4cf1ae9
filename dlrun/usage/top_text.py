"""`dlrun usage --live` in plain text: one line for the job, one for each rank."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dlrun.schedulers.reasons import in_words
from dlrun.usage.formats import bits, clock, size

if TYPE_CHECKING:
    from dlrun.usage.live import Live, LiveRank


def headline(live: Live) -> str:
    """State, time, and the latest value of each metric."""
    return ", ".join([state(live), *metrics(live)])


def metrics(live: Live) -> list[str]:
    """The latest value of each metric, with its unit."""
    return [f"{name} {one.value:.6g} {one.unit}".rstrip() for name, one in live.metrics.items()]


def state(live: Live) -> str:
    """State and time."""
    reason = (
        f" ({in_words(live.status.reason)})" if live.status.reason and not live.status.state.final else ""
    )
    running = (
        f"{'after' if live.status.state.final else 'for'} {clock(live.running)}"
        if live.running is not None
        else "not started"
    )
    return f"{live.status.state}{reason}, {running}"


def cores(rank: LiveRank) -> str:
    """`1.25 of 4`: cores in use, of those that the rank may use."""
    return f"{rank.cores:.2f}" + (f" of {rank.allowed}" if rank.allowed else "")


def lines(live: Live) -> Iterator[str]:
    """The lines of one update."""
    now = time.strftime("%H:%M:%S")
    yield f"{now} {headline(live)}"
    for node in live.nodes:
        network = f", {node.interface} {bits(node.network)}" if node.interface else ""
        yield f"{now} {node.node}: memory {size(node.memory)} of {size(node.limit)}{network}"
    for rank in live.ranks:
        gpus = f", GPU {rank.gpus} {rank.busy:.0f} %" if rank.busy is not None else ""
        yield f"{now} {rank.rank} on {rank.node}: {cores(rank)} cores, {size(rank.memory)}{gpus} | {rank.line[:120]}"
