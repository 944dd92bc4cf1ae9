"""Variables of communication libraries that change the speed of a training but not its result, with values to try.

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
"""Variable -> values to try besides the library's default: half and double sizes, the opposite of switches."""

SEVERAL_NODES = frozenset(
    {
        "HOROVOD_HIERARCHICAL_ALLREDUCE",
        "NCCL_SOCKET_NTHREADS",
        "I_MPI_ASYNC_PROGRESS",
        "MPICH_ASYNC_PROGRESS",
        "UCX_MAX_RNDV_RAILS",
    }
)
"""Variables that only affect communication between nodes."""

HUGE_PAGES = (
    (
        "GLIBC_TUNABLES",
        "glibc.malloc.hugetlb=1",
        None,
        "malloc requests transparent huge pages (glibc 2.35 and later) [GNU C Library manual, Memory Allocation Tunables]",
    ),
    (
        "THP_MEM_ALLOC_ENABLE",
        "1",
        "torch",
        "PyTorch requests transparent huge pages for tensors of 2 MB and more [PyTorch, pull request 107697]",
    ),
)
"""(variable, value, library that reads it (None: any program), reason), for training without GPUs."""

ALLOCATORS = ("jemalloc", "tcmalloc_minimal", "tcmalloc")
"""Libraries that replace malloc by LD_PRELOAD, without `lib` and `.so`."""

ALLOCATOR = "replaces malloc, where many threads allocate memory [PyTorch performance tuning guide, Switch memory allocator]"
