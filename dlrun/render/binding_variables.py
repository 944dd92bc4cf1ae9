"""All variables of a placement, and whether their values may differ between the ranks of a node."""

from __future__ import annotations

from typing import Literal, TypeAlias

from dlrun.model.record import record

Cores: TypeAlias = Literal["", "counts", "names"]


@record(frozen=True, slots=True, kw_only=True)
class BindingVariable:
    """A variable, the library that reads it, whether ranks of a node may have different values, and the reason with its source.

    `cores` is the relation of the value to the planned cores: none, their number (`counts`), or their ids (`names`).
    """

    name: str
    reader: str
    may_differ: bool
    because: str
    cores: Cores = ""


def _own(name: str, reader: str, because: str, cores: Cores = "") -> BindingVariable:
    return BindingVariable(name=name, reader=reader, may_differ=True, because=because, cores=cores)


def _same(name: str, reader: str, because: str, cores: Cores = "") -> BindingVariable:
    return BindingVariable(name=name, reader=reader, may_differ=False, because=because, cores=cores)


_PROCESS = "read by one process for its own threads"
_RUNTIME = "read by one process, which chooses its own devices"

VARIABLES = (
    _own("DLRUN_CPUS", "dlrun", "the rank's own mask"),
    _own("DLRUN_COMM_CPUS", "dlrun", "the rank's own communication cores", "names"),
    _own("DLRUN_LOADER_CPUS", "dlrun", "the rank's own data-loading cores", "names"),
    _own("DLRUN_NIC", "dlrun", "a name for scripts; no library reads it"),
    _own("OMP_NUM_THREADS", "OpenMP", _PROCESS, "counts"),
    _own("MKL_NUM_THREADS", "Intel MKL", _PROCESS, "counts"),
    _own("OPENBLAS_NUM_THREADS", "OpenBLAS", _PROCESS, "counts"),
    _own("TF_NUM_INTRAOP_THREADS", "TensorFlow", _PROCESS, "counts"),
    _own("TF_NUM_INTEROP_THREADS", "TensorFlow", _PROCESS),
    _own("OMP_PLACES", "OpenMP", _PROCESS, "names"),
    _own("OMP_PROC_BIND", "OpenMP", _PROCESS, "names"),
    _own("GOMP_CPU_AFFINITY", "GNU OpenMP", _PROCESS, "names"),
    _own("KMP_AFFINITY", "Intel OpenMP", _PROCESS, "names"),
    _own("KMP_HW_SUBSET", "Intel OpenMP", _PROCESS),
    _own("KMP_BLOCKTIME", "Intel OpenMP", _PROCESS),
    _own("CUDA_VISIBLE_DEVICES", "CUDA", _RUNTIME),
    _own("ROCR_VISIBLE_DEVICES", "ROCm", _RUNTIME),
    _own("ZE_AFFINITY_MASK", "Level Zero", _RUNTIME),
    _own(
        "UCX_NET_DEVICES",
        "UCX",
        "peers exchange the addresses of the devices that each opened; NVIDIA's own script sets it by rank "
        "(openucx/ucx issue 7273)",
    ),
    _same(
        "NCCL_IB_HCA",
        "NCCL",
        "NCCL finds each GPU's adapter itself, from those of the whole node: the adapters that a profile names are one "
        "list for all ranks of a job of several nodes, or its rings do not close (NVIDIA/nccl issue 1478)",
    ),
    _same("CUDA_DEVICE_ORDER", "CUDA", "ranks would number the node's GPUs differently"),
    _same("ZE_FLAT_DEVICE_HIERARCHY", "Level Zero", "some ranks would number tiles, others whole GPUs"),
    _same("MLSL_NUM_SERVERS", "MLSL", "one list for the node is divided by it"),
    _same("MLSL_SERVER_AFFINITY", "MLSL", "one list for the node, indexed by local rank", "names"),
    _same("CCL_WORKER_COUNT", "oneCCL", "one list for the node is divided by it"),
    _same("CCL_WORKER_AFFINITY", "oneCCL", "one list for the node, indexed by local rank", "names"),
    _same("HOROVOD_THREAD_AFFINITY", "Horovod", "one list for the node, indexed by local rank", "names"),
    _same("HFI_NO_CPUAFFINITY", "PSM2", "a switch for the node's adapters"),
)
"""In the order of the documentation's table."""

COUNT_CORES = frozenset(variable.name for variable in VARIABLES if variable.cores == "counts")
"""Names of the variables whose value is a rank's number of threads."""

NAME_CORES = frozenset(variable.name for variable in VARIABLES if variable.cores == "names")
"""Names of the variables with core ids, which are wrong if the job was granted other cores than planned."""
