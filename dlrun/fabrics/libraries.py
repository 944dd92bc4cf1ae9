"""Which communication libraries are in play: it follows from framework, launcher, GPUs and fabric."""

from __future__ import annotations

from collections.abc import Iterable

_OF_GPUS = {"cuda": ("nccl",), "rocm": ("nccl", "rccl"), "ze": ("oneccl",)}
"""The collective library of each kind of GPU; RCCL reads NCCL's names."""

_TORCH = ("torch", "gloo")
_OF_FRAMEWORK = {
    "torch": _TORCH,
    "accelerate": _TORCH,
    "deepspeed": _TORCH,
    "lightning": _TORCH,
    "horovod": ("horovod",),
    "mxnet": ("ps-lite", "mxnet"),
    "tensorflow": ("tensorflow",),
    "intelcaffe": ("mlsl", "intel-mpi"),
    "mpi": ("mpi-program",),
}
_OF_LAUNCHER = {
    "openmpi": ("openmpi", "ucx"),
    "hydra": ("mpich",),
    "intelmpi": ("intel-mpi",),
}
_OF_FABRIC = {
    "slingshot": ("libfabric", "libfabric-cxi"),
    "omni-path": ("libfabric", "psm2"),
    "efa": ("libfabric", "aws-ofi-nccl"),
    "infiniband": ("libfabric", "ucx"),
    "roce": ("libfabric", "ucx"),
    "ethernet": ("libfabric",),
}


def in_play(
    *, framework: str, launcher: str, gpus: str | None, fabric: str, present: Iterable[str] = ()
) -> frozenset[str]:
    """Names of libraries; `gpus` is the kind of the job's GPUs, `present` what the site says is there.

    `mpi-program` stands for a program that may pass anything to MPI.
    """
    found = {
        *_OF_FRAMEWORK.get(framework, ()),
        *_OF_LAUNCHER.get(launcher, ()),
        *_OF_FABRIC.get(fabric, ()),
        *present,
    }
    return frozenset(found | set(_OF_GPUS.get(gpus, ()) if gpus else ()))
