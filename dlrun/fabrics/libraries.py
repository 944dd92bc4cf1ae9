"""Which communication libraries are in play: it follows from framework, launcher, GPUs and fabric."""

from __future__ import annotations

from collections.abc import Iterable

_OF_GPUS = {"cuda": ("nccl",), "rocm": ("nccl", "rccl"), "ze": ("oneccl",)}
"""The collective library of each kind of GPU; RCCL reads NCCL's names."""

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
"""What a library can choose on each fabric without falling back, in the words of `dlrun/node/checks/transport_lines.py`.

Omni-Path's verbs are what NCCL uses without a plugin for psm2 (Cornelis, Omni-Path Fabric Performance Tuning Guide).
"""


def in_play(
    *, used: Iterable[str], gpus: str | None, fabric: str, present: Iterable[str] = ()
) -> frozenset[str]:
    """Names of libraries; `used` are the framework's and the launcher's, `gpus` is the kind of the job's GPUs.

    `present` is what the site has.

    `mpi-program` stands for a program that may pass anything to MPI, also what is in a GPU's memory.
    """
    found = {
        *used,
        *_OF_FABRIC.get(fabric, ()),
        *present,
    }
    return frozenset(found | set(_OF_GPUS.get(gpus, ()) if gpus else ()))
