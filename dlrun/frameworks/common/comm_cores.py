"""Use of the communication cores of a placement: one set of rules, for jobs and for `dlrun tune-affinity`.

Threads and servers that a library starts inside the ranks (MLSL, oneCCL, Horovod) get them by the library's variables.
Processes beside the ranks (parameter servers) are bound to them by the plan. Where a placement has none, both share the
cores of the ranks.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlrun.frameworks.common import defaults
from dlrun.frameworks.protocol import Setting
from dlrun.model.placement import CommLibrary, RankPlacement

_WORKERS = {
    "mlsl": ("MLSL_NUM_SERVERS", "MLSL_SERVER_AFFINITY", "Intel MLSL, src/comm_ep.cpp"),
    "ccl": ("CCL_WORKER_COUNT", "CCL_WORKER_AFFINITY", "oneCCL documentation, Environment variables"),
}
"""Library with polling workers -> the variables for their number per rank and for their cores, and the source."""

_BACKGROUND = {"horovod": "", "horovod-ccl": "ccl"}
"""Library with one background thread per rank -> the library whose workers poll beside that thread (empty: none)."""


def of_library(
    library: CommLibrary, ranks: Sequence[RankPlacement], *, otherwise: int | None = None
) -> tuple[Setting, ...]:
    """The variables that put a library's threads on the communication cores of the ranks of one node.

    `otherwise` is the number of workers of a rank without such cores; None: the library's default.
    """
    settings: list[Setting] = []
    beside = _BACKGROUND.get(library)
    workers = beside or library
    cores = [core for rank in ranks for core in rank.comm]
    if workers in _WORKERS:
        count_name, where_name, source = _WORKERS[workers]
        count = len(ranks[0].comm) if cores else otherwise
        if count is not None:
            rows = [(count_name, str(count), "one per communication core of the rank")]
            if cores:
                where = ",".join(map(str, cores))
                rows.append((where_name, where, "the communication cores of all ranks of a node"))
            settings += defaults.settings(source, rows)
    if cores and beside is not None:
        shared = bool(beside)
        where = ",".join(str(rank.background_cpu(shared=shared)) for rank in ranks)
        why = "the communication core of each local rank"
        why += ", shared with oneCCL's worker if it has two hardware threads" if shared else ""
        settings += defaults.settings(
            "Horovod documentation, Horovod with oneCCL", [("HOROVOD_THREAD_AFFINITY", where, why)]
        )
    return tuple(settings)


def of_processes(ranks: Sequence[RankPlacement]) -> tuple[int, ...]:
    """All hardware threads of the communication cores of a node's ranks, for processes beside the ranks."""
    own = (rank.comm for rank in ranks)
    siblings = (cpus for rank in ranks for cpus in rank.comm_siblings)
    return tuple(sorted({cpu for cpus in (*own, *siblings) for cpu in cpus}))
