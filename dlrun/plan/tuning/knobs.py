"""Variables of communication libraries that change a training's speed and nothing that it computes, with values to try.

What each does, and the source, is its row in the tables of `dlrun.fabrics`; all are `tunable` there.
"""

from __future__ import annotations

VALUES = {
    "HOROVOD_FUSION_THRESHOLD": ("33554432", "67108864"),
    "HOROVOD_CYCLE_TIME": ("5", "10"),
    "HOROVOD_HIERARCHICAL_ALLREDUCE": ("1",),
    "NCCL_SOCKET_NTHREADS": ("4",),
    "CCL_WORKER_COUNT": ("2",),
    "I_MPI_ASYNC_PROGRESS": ("1",),
    "MPICH_ASYNC_PROGRESS": ("1",),
    "UCX_MAX_RNDV_RAILS": ("1",),
}
"""Values other than the library's default: halves and doubles of sizes, the other side of switches."""

SEVERAL_NODES = frozenset(
    {
        "HOROVOD_HIERARCHICAL_ALLREDUCE",
        "NCCL_SOCKET_NTHREADS",
        "I_MPI_ASYNC_PROGRESS",
        "MPICH_ASYNC_PROGRESS",
        "UCX_MAX_RNDV_RAILS",
    }
)
"""Those that act between nodes only."""
