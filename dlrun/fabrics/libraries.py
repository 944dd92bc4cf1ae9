"""The communication libraries of a job, from its framework, launcher, GPUs and fabric."""

from __future__ import annotations

from collections.abc import Iterable

_OF_GPUS = {"cuda": ("nccl",), "rocm": ("nccl", "rccl"), "ze": ("oneccl",)}
"""Kind of GPU -> collective libraries; `rocm` has both because RCCL reads NCCL's variables."""

_OF_FABRIC = {
    "slingshot": ("libfabric", "libfabric-cxi"),
    "omni-path": ("libfabric", "psm2"),
    "efa": ("libfabric", "aws-ofi-nccl"),
    "infiniband": ("libfabric", "ucx"),
    "roce": ("libfabric", "ucx"),
    "ethernet": ("libfabric",),
}

TRANSPORTS = {
    "infiniband": ("ib",),
    "roce": ("roce", "ib"),
    "omni-path": ("psm2", "opx", "psm3", "ib"),
    "slingshot": ("cxi",),
    "efa": ("efa",),
    "ethernet": ("tcp", "roce", "psm3"),
}
"""Fabric -> the transports that are not a fallback on it, with the names of `dlrun/node/checks/transport_lines.py`.

`ib` on Omni-Path: NCCL without a psm2 plugin uses verbs (Cornelis, Omni-Path Fabric Performance Tuning Guide).
"""


def job_libraries(
    *, used: Iterable[str], gpus: str | None, fabric: str, present: Iterable[str] = ()
) -> frozenset[str]:
    """The names of the libraries that a job uses.

    `used` are those of framework and launcher, `gpus` is the kind of GPU (None: no GPUs), and `present` are those listed in the
    site profile. `mpi-program` in `used` stands for a program that may pass any buffer to MPI, including GPU memory.
    """
    of_gpus = _OF_GPUS.get(gpus, ()) if gpus else ()
    return frozenset({*used, *_OF_FABRIC.get(fabric, ()), *present, *of_gpus})
