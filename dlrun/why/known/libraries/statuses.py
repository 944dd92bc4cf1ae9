"""Status codes of the GPU libraries of NVIDIA and AMD, by what they mean: memory, a call, a build, a set-up of the node."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

_CUDA = "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html"

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="status codes of GPU libraries",
        source=_CUDA,
        forms=(
            Form(
                cause="memory",
                texts=("CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED",),
                source="https://docs.nvidia.com/deeplearning/cudnn/backend/latest/api/cudnn-graph-library.html",
            ),
            Form(
                cause="gpu-memory",
                texts=(
                    "HIP error: out of memory",
                    "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
                    "CUFFT_ALLOC_FAILED",
                    "HIPFFT_ALLOC_FAILED",
                    "CUSPARSE_STATUS_INSUFFICIENT_RESOURCES",
                    "CURAND_STATUS_ALLOCATION_FAILED",
                    "miopenStatusAllocFailed",
                    "rocblas_status_memory_error",
                    "NVJPEG_STATUS_ALLOCATOR_FAILURE",
                ),
                regex=r"\b(?:CUSOLVER|CUSPARSE|HIPBLAS|HIPSPARSE|HIPSOLVER|CUTENSOR)_STATUS_ALLOC_FAILED\b",
                source="https://docs.nvidia.com/cuda/cusparse/#cusparsestatus-t",
                passing=True,
            ),
            Form(
                cause="gpu-library",
                texts=(
                    "CUDA driver is a stub library",
                    "CUDA_ERROR_STUB_LIBRARY",
                    "CudaAPIError: [34] Call to cuInit",
                ),
                source=_CUDA,
                means="the program loaded CUDA's stub of the driver (`libcuda.so` for compilers), not the driver's own library",
                check="`echo $LD_LIBRARY_PATH` in the job, for a directory `stubs`",
                next="remove directories named `stubs` from `LD_LIBRARY_PATH` (`environment.variables`, a module); in a container let its runtime mount the driver",
            ),
            Form(
                cause="missing-library",
                texts=("PTX JIT compiler library not found", "CUDA_ERROR_JIT_COMPILER_NOT_FOUND"),
                source=_CUDA,
                means="the driver's compiler (`libnvidia-ptxjitcompiler.so`) is not where the program runs",
                check="`ldconfig -p | grep ptxjit` in the job, inside the container too",
                next="let the container's runtime mount all of the driver (`environment.variables: {NVIDIA_DRIVER_CAPABILITIES: all}`), or install a build that has code for this GPU",
            ),
            Form(
                cause="gpu-build",
                texts=(
                    "CUDA error: a PTX JIT compilation failed",
                    "CUDA_ERROR_INVALID_PTX",
                    "CUDA error: shared object symbol not found",
                    "CUDA error: shared object initialization failed",
                    "CUDA error: invalid source",
                    "CUDA error: too many resources requested for launch",
                    "CUDA error: limit is not supported on this architecture",
                    "CUDA error: too many blocks in cooperative launch",
                ),
                source=_CUDA,
                means="a kernel of the program does not fit this GPU, or its driver: it was compiled for another one",
                passing=True,
            ),
            Form(
                cause="gpu-library",
                texts=(),
                regex=r"\bRET_CHECK failure \([^)]*\) dnn != nullptr",
                source="https://github.com/kuixu/alphafold/issues/18",
                means="XLA could not start cuDNN: its library is missing or of another version, or the GPU's memory is full",
                check="`pip list | grep -i cudnn` in the job's environment, and `dlrun usage JOB` for the memory of the GPU",
                next="install the cuDNN that this jaxlib names, and remove others from `LD_LIBRARY_PATH`; with a full GPU `environment.variables: {XLA_PYTHON_CLIENT_MEM_FRACTION: '0.8'}`",
            ),
            Form(
                cause="gpu-library",
                texts=("CUDA error: file not found",),
                source=_CUDA,
                means="CUDA did not find a file of compiled kernels that a library names",
                next="install that library again, and look for a second version of it in `LD_LIBRARY_PATH`",
            ),
            Form(
                cause="gpu-busy",
                texts=(
                    "the MPS server is not ready to accept new MPS client requests",
                    "the hardware resources required to create MPS client have been exhausted",
                    "the hardware resources required to support device connections have been exhausted",
                    "CUDA_ERROR_MPS_{1}",
                ),
                source=_CUDA,
                means="NVIDIA's MPS, by which processes share a GPU, does not take another one",
                next="start fewer ranks for each GPU, or take MPS out of the job (`CUDA_MPS_PIPE_DIRECTORY`)",
            ),
            Form(
                cause="device-assert",
                texts=(
                    "CUDA error: hardware stack error",
                    "CUDA error: invalid program counter",
                    "operation not supported on global/shared address space",
                    "CUDA error: attempt to terminate a thread block cluster",
                ),
                source=_CUDA,
            ),
            Form(
                cause="gpu-broken",
                texts=("NVML_ERROR_GPU_IS_LOST", "NVML_ERROR_RESET_REQUIRED", "NVMLError_ResetRequired"),
                source="https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html",
            ),
            Form(
                cause="gpu-library",
                texts=(
                    "NVMLError_NotSupported",
                    "NVMLError_NoPermission",
                    "NVMLError_InvalidArgument",
                    "NVMLError_FunctionNotFound",
                    "NVMLError_NotFound",
                ),
                source="https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html",
                means="what a monitor asks of the GPU's driver (NVML) is not known or not allowed there: often with MIG, in a container, or with an older driver",
                check="`nvidia-smi -q` on a node of the job",
                next="turn that monitor of the GPU off in the program, or catch its error",
                passing=True,
            ),
            Form(
                cause="gpu-library",
                texts=(
                    "GET was unable to find an engine to execute this computation",
                    "FIND was unable to find an engine to execute this computation",
                    "Unable to find a valid cuDNN algorithm to run convolution",
                    "CUDNN_STATUS_EXECUTION_FAILED",
                    "CUDNN_STATUS_INTERNAL_ERROR",
                    "CUDNN_STATUS_MAPPING_ERROR",
                    "CUBLAS_STATUS_EXECUTION_FAILED",
                    "CUBLAS_STATUS_INTERNAL_ERROR",
                    "CUBLAS_STATUS_MAPPING_ERROR",
                    "CUFFT_INTERNAL_ERROR",
                    "CUFFT_EXEC_FAILED",
                    "CUFFT_SETUP_FAILED",
                    "HIPBLAS_STATUS_INTERNAL_ERROR",
                    "HIPBLAS_STATUS_EXECUTION_FAILED",
                    "miopenStatusInternalError",
                    "miopenStatusUnknownError",
                    "INTERNAL: the library was not initialized",
                ),
                regex=r"\bCU(?:SOLVER|RAND)_STATUS_(?!SUCCESS\b)[A-Z]\w+|\bCheck failed: .* == CU(?:SOLVER|RAND)_STATUS_SUCCESS\b",
                source="https://docs.nvidia.com/cuda/cublas/#error-status",
                means="a call of the GPU's mathematical libraries failed: the GPU's memory is nearly full, a kernel before it failed, or the library does not fit the driver or the GPU",
                check="run once with a batch of half the size (memory), and with `environment.variables: {CUDA_LAUNCH_BLOCKING: 1}` (a kernel before it)",
                next="with memory as its reason make `batch_per_rank` smaller; otherwise remove other versions from `LD_LIBRARY_PATH` and `environment.modules`, or install builds that belong together",
                passing=True,
            ),
        ),
    ),
)
