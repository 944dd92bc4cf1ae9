"""What frameworks need of a placement: which OpenMP runtime computes, and which library wants cores to itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from dlrun import backends
from dlrun.errors import Invalid
from dlrun.model.nearest import nearest
from dlrun.model.topology import Topology

OpenMP: TypeAlias = Literal["gomp", "gomp-old", "iomp", "iomp-list", "none"]
"""Whose threads are bound one by one, and by which variable: GNU's; GNU's before it knew `OMP_PLACES` (GCC 4.8
and older); LLVM's or Intel's by its own order of the cores in the mask; the same by a list of CPUs; nobody's."""
CommLibrary: TypeAlias = Literal["none", "mlsl", "ccl", "horovod", "horovod-ccl"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """Of one framework: its OpenMP runtime as usually installed, the library whose threads get cores of
    their own, how many of those a rank has by default, and why."""

    openmp: OpenMP = "gomp"
    library: CommLibrary = "none"
    comm_cores: int = 0
    thread_pools: bool = False
    because: str = ""


PRESETS: dict[str, Preset] = {
    "torch": Preset(because="PyTorch's wheels carry libgomp; gloo and NCCL run on the rank's own cores"),
    "torch-ccl": Preset(
        openmp="iomp",
        library="ccl",
        comm_cores=1,
        because="oneCCL's workers poll: one core of their own a rank",
    ),
    "horovod": Preset(library="horovod", because="Horovod's background thread shares the rank's cores"),
    "horovod-ccl": Preset(
        openmp="iomp",
        library="horovod-ccl",
        comm_cores=1,
        because="oneCCL's workers poll; Horovod's thread goes to a sibling of theirs (Horovod, docs/oneccl.rst)",
    ),
    "intelcaffe": Preset(
        openmp="iomp",
        library="mlsl",
        comm_cores=2,
        because="MLSL's servers poll (intel/caffe scripts/set_env.sh)",
    ),
    "mxnet": Preset(because="ps-lite and Horovod's thread share the rank's cores"),
    "tensorflow": Preset(thread_pools=True, because="TensorFlow has thread pools of its own"),
    "mpi": Preset(because="any MPI program"),
}
"""By the name that `--framework` takes."""

MLSL_ON_MANY_CORES = 4
"""MLSL servers on Xeon Phi, where a core is slow (intel/caffe scripts/set_env.sh@44d5363)."""


FAMILIES = {
    "accelerate": "torch",
    "deepspeed": "torch",
    "lightning": "torch",
    "keras": "tensorflow",
    "mesh_tensorflow": "tensorflow",
    "oneccl": "torch-ccl",
}
"""Frameworks that compute by another's runtime -> whose preset holds for them."""


def preset(framework: str) -> Preset:
    """The preset of a framework; raises Invalid for a name that is neither in the tables nor a framework."""
    name = FAMILIES.get(framework, framework)
    if name in PRESETS:
        return PRESETS[name]
    if framework in backends.FRAMEWORKS:
        return Preset(because="no library of its own wants cores to itself")
    known = sorted({*PRESETS, *backends.FRAMEWORKS})
    near = nearest(framework, known)
    raise Invalid(
        f"no framework `{framework}`",
        help=(f"the nearest is `{near}`; " if near else "") + f"known are {', '.join(known)}",
    )


def default_comm_cores(chosen: Preset, topology: Topology) -> int:
    """Communication cores of a rank when nobody says how many."""
    if chosen.library == "mlsl" and topology.smt() == 4 and len(topology.packages()) == 1:
        return MLSL_ON_MANY_CORES
    return chosen.comm_cores
