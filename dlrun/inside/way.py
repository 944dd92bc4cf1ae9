"""How a command gets to a node of a running job: as a step of its scheduler, by ssh, or directly on this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from socket import gethostname

from dlrun import backends
from dlrun.inside.place import Place
from dlrun.jobs.clusters import identity
from dlrun.jobs.clusters.environment import inherited
from dlrun.node.carry import READY
from dlrun.render.shell import join
from dlrun.schedulers.allocation import is_inside
from dlrun.system.transport.protocol import Stream


def command(place: Place, inner: Sequence[str], word: str, *, terminal: bool) -> list[str]:
    """Arguments that run `inner` on the place's node, for the host on which the job was submitted.

    word: the command, for messages; terminal: `inner` gets a terminal. Raises OperationFailed if another cluster or machine than
    the job's would be asked.
    """
    job = place.job
    identity.require([job], word)
    # A surrounding job's variables would be options of the clients.
    unwanted = inherited(os.environ) if job.remote is None else job.remote.unwanted
    unset = f"unset {join(unwanted)}; " if unwanted else ""
    return [
        "bash",
        "-c" if job.remote is None else "-lc",
        f"{unset}exec {join(_words(place, inner, terminal=terminal))}",
    ]


def _words(place: Place, inner: Sequence[str], *, terminal: bool) -> Sequence[object]:
    job = place.job
    scheduler = backends.scheduler(job.scheduler)
    if scheduler.ON_THIS_MACHINE and (not is_inside(job.scheduler) or _is_here(place.host)):
        return inner
    step = scheduler.step_inside(job.scheduler_id(place.task), place.host, terminal=terminal)
    if step is not None:
        return (*step, *inner)
    # Where a site forbids ssh to its nodes, ssh itself reports it.
    options = ("-t",) if terminal else ("-T", "-o", "BatchMode=yes")
    return ("ssh", *options, "-o", "ConnectTimeout=15", "--", place.host, join(inner))


def _is_here(host: str) -> bool:
    """Whether a node is this machine, where a run in an allocation has its first ranks, or none (`salloc` on a login node)."""
    return host.partition(".")[0] == gethostname().partition(".")[0]


def after_mark(stream: Stream) -> bytes | None:
    """What follows the far end's first word, after what a login shell printed; None if it never came."""
    read = b""
    while READY not in read:
        more = stream.read()
        if not more:
            return None
        read = (read + more)[-(1 << 16) :]
    return read.partition(READY)[2]
