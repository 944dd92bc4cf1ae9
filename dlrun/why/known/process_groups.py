"""Errors of the process groups of PyTorch (c10d), and of NCCL as they repeat it."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

_TORCH = "https://github.com/pytorch/pytorch/blob/main/"
_NCCL = "https://github.com/NVIDIA/nccl/blob/master/src/"

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="PyTorch process groups",
        source=_TORCH + "torch/csrc/distributed/c10d/",
        line=r"\[c10d\]|\bTCPStore\b|DistStoreError|DistNetworkError|DistBackendError|ProcessGroup(?:NCCL|Gloo|MPI|UCC)\b|\[PG (?:ID )?\d|\bnccl(?:Remote|System|Internal|Unhandled\w*|InvalidUsage|InvalidArgument)Error\b|ProcessGroupWrapper",
        forms=(
            Form(
                cause="peer-lost",
                texts=("NCCL Error 1: {1}", "NCCL Error 2: {1}", "NCCL Error 3: {1}", "NCCL Error 6: {1}"),
                source="https://github.com/pytorch/pytorch/blob/main/torch/csrc/cuda/nccl.cpp",
                consequence=True,
                anywhere=True,
            ),
            Form(
                cause="library-setting",
                texts=("NCCL Error 4: {1}", "NCCL Error 5: {1}"),
                source="https://github.com/pytorch/pytorch/blob/main/torch/csrc/cuda/nccl.cpp",
                consequence=True,
                anywhere=True,
            ),
            Form(
                cause="port-in-use",
                texts=(
                    "The server socket has failed to listen on any local network address",
                    "The server socket has failed to bind to",
                    "port: {1}, useIpv6: {}, code: -98",
                ),
                source="https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/socket.cpp",
                anywhere=True,
            ),
            Form(
                cause="rank-variables",
                texts=(
                    "environment variable {1} expected, but not set",
                    "rank parameter missing",
                    "world size parameter missing",
                ),
                source="https://github.com/pytorch/pytorch/blob/main/torch/distributed/rendezvous.py",
                anywhere=True,
            ),
            Form(
                cause="rank-variables",
                texts=(
                    "Default process group has not been initialized, please make sure to call init_process_group",
                    "trying to initialize the default process group twice",
                ),
                source="https://github.com/pytorch/pytorch/blob/main/torch/distributed/distributed_c10d.py",
                means="the program uses process groups in another order than PyTorch requires",
                next="call `torch.distributed.init_process_group` once in each rank, before the first collective operation or sampler",
                anywhere=True,
            ),
            Form(
                cause="collective-mismatch",
                texts=(
                    "Expected to have finished reduction in the prior iteration before starting a new one",
                    "Expected to mark a variable ready only once",
                    "Your training graph has changed in this iteration",
                ),
                source="https://pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html",
                means="parameters took no part in the loss, or twice, which DistributedDataParallel does not expect",
                next="use every parameter in the loss, or `DistributedDataParallel(find_unused_parameters=True)`; with activation checkpoints `use_reentrant=False`",
                anywhere=True,
            ),
            Form(
                cause="collective-mismatch",
                texts=(
                    "DDP expects same model across all ranks",
                    "appears not to match sizes of the same param in process {}",
                    "Params and parameter shapes mismatch between ranks",
                    "Tensors must be contiguous and have the same size across ranks",
                    "All tensor operands to scatter/gather must have the same size",
                    "inconsistent {} params",
                ),
                source="https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/reducer.cpp",
                means="the ranks built different models",
                next="build the same model in every rank: the same configuration, and the same checkpoint",
                anywhere=True,
            ),
            Form(
                cause="port-in-use",
                texts=("EADDRINUSE", "errno: 98 - Address already in use", "address already in use"),
                source=_TORCH + "torch/csrc/distributed/c10d/socket.cpp",
                passing=True,
            ),
            Form(cause="gpu-shared", texts=("Duplicate GPU detected",), source=_NCCL + "init.cc"),
            Form(
                cause="gpu-memory",
                texts=("Cuda failure 'out of memory'", "Failed to CUDA calloc", "failure 2 'out of memory'"),
                source=_NCCL + "include/checks.h",
            ),
            Form(
                cause="gpu-number",
                texts=("failure 'invalid device ordinal'", "failure 101 'invalid device ordinal'"),
                source=_NCCL + "include/checks.h",
            ),
            Form(
                cause="fabric-manager",
                texts=("failure 'system not yet initialized'", "Cuda failure 802"),
                source=_NCCL + "include/checks.h",
            ),
            Form(
                cause="driver-old",
                texts=("failure 'CUDA driver version is insufficient for CUDA runtime version'",),
                source=_NCCL + "include/checks.h",
            ),
            Form(
                cause="no-gpu",
                texts=("ProcessGroupNCCL is only supported with GPUs, no GPUs found!",),
                source=_TORCH + "torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp",
                anywhere=True,
            ),
            Form(
                cause="locked-memory",
                texts=(
                    "Call to ibv_reg_mr failed with error Cannot allocate memory",
                    "Call to ibv_create_qp failed with error Cannot allocate memory",
                ),
                source=_NCCL + "misc/ibvwrap.cc",
            ),
            Form(
                cause="fabric", texts=("Call to ibv_{} failed with error",), source=_NCCL + "misc/ibvwrap.cc"
            ),
            Form(
                cause="shared-memory",
                texts=("Error while creating shared memory segment", "failed to extend /dev/shm/nccl"),
                source=_NCCL + "misc/shmutils.cc",
            ),
            Form(
                cause="fabric-interface",
                texts=("no socket interface found", "no interface found"),
                source=_NCCL + "bootstrap.cc",
            ),
            Form(
                cause="gpu-build",
                texts=(
                    "No backend type associated with device type cpu",
                    "No backend type associated with device type cuda",
                    "No backend type associated with device type {1}",
                    "Tensors must be CUDA and dense",
                ),
                source=_TORCH + "torch/csrc/distributed/c10d/ProcessGroup.hpp",
                means="a tensor is on a device for which the process group has no back end",
                check="print the device of the tensors that are reduced",
                next="give both back ends: `init_process_group('cpu:gloo,cuda:nccl')`, or move the tensor",
                anywhere=True,
            ),
            Form(
                cause="collective-mismatch",
                texts=(
                    "Detected mismatch between collectives on ranks",
                    "Tensor shapes mismatch",
                    "are not in the same order across",
                ),
                source=_TORCH + "torch/csrc/distributed/c10d/ProcessGroupWrapper.cpp",
                anywhere=True,
            ),
            Form(
                cause="no-libuv",
                texts=("use_libuv was requested but PyTorch was buil{} without libuv support",),
                anywhere=True,
                source="https://github.com/pytorch/pytorch/issues/148283",
            ),
            Form(
                cause="collective-timeout",
                texts=("wait timeout after {}timeout_dump", "failed to pass monitoredBarrier"),
                source=_TORCH + "torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp",
                consequence=True,
                anywhere=True,
            ),
            Form(
                cause="rendezvous",
                texts=(
                    "The client socket has timed out after {} while trying to connect to",
                    "The client socket has failed to connect to any network address of",
                    "waiting for clients. {} clients joined",
                    "DistStoreError: Timed out after {} seconds waiting for clients",
                    "Timed out after {} seconds waiting for clients",
                    "wait timeout after {} keys:",
                    "The IPv4 network addresses of ({}) cannot be retrieved",
                    "The IPv6 network addresses of ({}) cannot be retrieved",
                    "wait for default_pg to be initialized timed out",
                ),
                source=_TORCH + "torch/csrc/distributed/c10d/socket.cpp",
                consequence=True,
                anywhere=True,
            ),
            Form(
                cause="collective-timeout",
                texts=(
                    "Watchdog caught collective operation timeout",
                    "Some NCCL operations have failed or timed out",
                    "ran for {} milliseconds before timing out",
                    "Monitored barrier timed out",
                    "timed out in call to _store_based_barrier",
                    "Timed out initializing process group in store based barrier",
                    "ProcessGroupNCCL's watchdog got stuck",
                ),
                source=_TORCH + "torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp",
                consequence=True,
                anywhere=True,
            ),
            Form(
                cause="gpu-broken",
                texts=("uncorrectable ECC error encountered", "uncorrectable NVLink error"),
                source="https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html",
            ),
            Form(
                cause="device-assert",
                texts=(
                    "CUDA error: an illegal memory access was encountered",
                    "CUDA error: device-side assert triggered",
                    "CUDA error: unspecified launch failure",
                ),
                source=_TORCH + "c10/cuda/CUDAException.cpp",
            ),
            Form(
                cause="communication",
                texts=("NCCL error: {1}",),
                source="https://github.com/sgl-project/sglang/issues/8974",
                consequence=True,
                anywhere=True,
            ),
            Form(
                cause="ranks",
                texts=("Invalid rank requested : {1}",),
                source="https://github.com/Lightning-AI/pytorch-lightning/issues/20219",
                means="a rank's number is not below the number of ranks that it was given",
                next="compare RANK and WORLD_SIZE of each rank; let the program take them from the variables that `dlrun plan --script` shows, and not compute them",
                anywhere=True,
            ),
            Form(
                cause="library-setting",
                texts=("ncclInvalidArgument", "ncclInvalidUsage"),
                regex=r"NCCL error in: .*, invalid (?:argument|usage)\b",
                source=_TORCH + "torch/csrc/distributed/c10d/NCCLUtils.cpp",
                means="NCCL was called with arguments that it rejects, often two ranks on one GPU",
                next="print LOCAL_RANK and the GPU of each rank; `environment.variables: {NCCL_DEBUG: WARN}` shows NCCL's own message",
                consequence=True,
            ),
            Form(
                cause="peer-lost",
                texts=(
                    "DistNetworkError",
                    "DistStoreError",
                    "ncclRemoteError",
                    "ncclSystemError",
                    "ncclInternalError",
                    "ncclUnhandledCudaError",
                    "DistBackendError: ",
                    "NCCL error in: ",
                    "remote process exited or there was a network error",
                    "NCCL communicator was aborted",
                    "failed to recv, got 0 bytes",
                    "recvValue failed",
                    "sendBytes failed",
                    "Connection reset by peer",
                    "Broken pipe",
                    "stopped sending heartbeats",
                    "Connection was likely closed",
                    "Received signal to abort",
                    "Exception (either an error or timeout) detected by watchdog",
                    "terminating the process",
                ),
                source=_TORCH + "torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp",
                consequence=True,
            ),
            Form(
                cause="peer-lost",
                texts=(
                    "is setting up NCCL communicator and retrieving ncclUniqueId from",
                    "store->get({}) got error",
                ),
                source="https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp",
                consequence=True,
                anywhere=True,
            ),
            Form(
                cause="peer-lost",
                texts=(
                    "NCCL failure :remote process exited or there was a network error",
                    "NCCL communicator was aborted",
                ),
                source="https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/NCCLUtils.cpp",
                consequence=True,
                anywhere=True,
            ),
            Form(
                cause="rank-variables",
                texts=(),
                regex=r"KeyError: '((?:LOCAL_|GROUP_)?RANK|(?:LOCAL_)?WORLD_SIZE|MASTER_(?:ADDR|PORT)|(?:SLURM|OMPI|PMI|PBS)_\w+)'",
                source="https://pytorch.org/docs/stable/elastic/run.html",
                anywhere=True,
            ),
        ),
    ),
)
