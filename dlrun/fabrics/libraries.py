"""Which communication libraries are in play: it follows from framework, launcher, GPUs and fabric."""

from __future__ import annotations

from collections.abc import Iterable

_OF_GPUS = {"cuda": ("nccl",), "rocm": ("nccl", "rccl"), "ze": ("oneccl",)}
"""The collective library of each kind of GPU; RCCL reads NCCL's names."""

_TORCH = ("torch", "gloo")
_MPI = ("mpi-program",)
OF_FRAMEWORK: dict[str, tuple[str, ...]] = {
    "torch": _TORCH,
    "accelerate": _TORCH,
    "deepspeed": _TORCH,
    "lightning": _TORCH,
    "ray": _TORCH,  # Ray Train's workers are torch's ranks
    "horovod": ("horovod",),
    "mxnet": ("ps-lite", "mxnet"),
    "tensorflow": ("tensorflow",),
    "mesh_tensorflow": ("tensorflow",),
    "keras": ("tensorflow", *_TORCH),  # whichever its back end is
    "intelcaffe": ("mlsl", "intel-mpi"),
    "oneccl": ("oneccl",),
    "mpi": _MPI,
    "chainermn": _MPI,
    "cntk": _MPI,
    "nvcaffe": _MPI,
    "caffe_mpi": _MPI,
    "torch_mpi": _MPI,
    "theano_mpi": _MPI,
    "ibm_ddl": _MPI,
    # These talk over sockets of their own, which no variable steers.
    "jax": (),
    "paddle": (),
    "caffe2": (),
    "spark": (),
    "caffeonspark": (),
    "deeplearning4j": (),
    "h2o": (),
}
"""What each framework talks through, besides its GPUs' library and its launcher's MPI."""

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
    *, framework: str, launcher: str, gpus: str | None, fabric: str, present: Iterable[str] = ()
) -> frozenset[str]:
    """Names of libraries; `gpus` is the kind of the job's GPUs, `present` what the site says is there.

    `mpi-program` stands for a program that may pass anything to MPI, also what is in a GPU's memory.
    """
    found = {
        *OF_FRAMEWORK.get(framework, ()),
        *_OF_LAUNCHER.get(launcher, ()),
        *_OF_FABRIC.get(fabric, ()),
        *present,
    }
    return frozenset(found | set(_OF_GPUS.get(gpus, ()) if gpus else ()))
