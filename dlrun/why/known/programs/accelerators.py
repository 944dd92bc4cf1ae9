"""Errors of other accelerators than GPUs of NVIDIA and AMD, and of their communication libraries: Gaudi, Ascend, Intel with oneCCL."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="Gaudi, Ascend and oneCCL",
        source="https://docs.habana.ai/",
        line=r"\bsyn(?:Status|Device|Node|Graph)\w*|\bHABANA_LOGS\b|\bhabana_frameworks\b|\bHCCL\b|\|CCL_(?:ERROR|WARN)\||\boneCCL: |\bERR0[0-9]\d{3} DIST\b|\bE[IJ]\d{4}: ",
        forms=(
            Form(
                cause="no-gpu",
                texts=("synDeviceAcquire{1} failed", "Device acquire failed"),
                source="https://github.com/HabanaAI/hccl_demo/issues/44",
                check="`hl-smi` (Gaudi) or `npu-smi info` (Ascend) on a node of the job",
                anywhere=True,
            ),
            Form(
                cause="gpu-library",
                texts=(
                    "synNodeCreateWithId failed",
                    "Graph compile failed. synStatus",
                    "synStatus 26 [Generic failure]",
                    "synStatus={}Generic failure",
                ),
                source="https://github.com/huggingface/optimum-habana/issues/1426",
                means="the device's compiler rejected an operation of the program, or fits neither its driver nor its build",
                check="the files below `$HABANA_LOGS`",
                anywhere=True,
            ),
            Form(
                cause="gpu-memory",
                texts=("EL0004: Failed to allocate memory",),
                regex=r"(?:\|CCL_ERROR\||oneCCL: ).*(?:ZE|UR)_RESULT_ERROR_OUT_OF_DEVICE_MEMORY",
                source="https://github.com/intel/intel-extension-for-pytorch/issues/640",
                anywhere=True,
            ),
            Form(
                cause="device-assert",
                texts=("there is an exception of aivec error", "there is an exception of aicore error"),
                source="https://github.com/Ascend/pytorch",
                next="run once with `environment.variables: {ASCEND_LAUNCH_BLOCKING: 1}` to see the line",
                anywhere=True,
            ),
            Form(
                cause="port-in-use",
                texts=("The IP address and port have been bound already",),
                source="https://github.com/Ascend/pytorch",
                next="give each job its own `HCCL_IF_BASE_PORT` (`environment.variables`), and submit again",
                anywhere=True,
            ),
            Form(
                cause="collective-mismatch",
                texts=("The arguments for collective communication are inconsistent between ranks",),
                source="https://github.com/Ascend/pytorch",
                anywhere=True,
            ),
            Form(
                cause="collective-timeout",
                texts=(
                    "Getting socket times out. Reason: {1}",
                    "The wait execution of the Notify register times out",
                    "HcclAllreduce, error code is 9",
                ),
                source="https://github.com/vllm-project/vllm-ascend/issues/486",
                consequence=True,
                anywhere=True,
            ),
            Form(
                cause="fabric-provider",
                texts=("can't create providers for name {1}", "can't find suitable provider"),
                regex=r"\|CCL_ERROR\| .*(?:fi_getinfo error|can not open network providers|atl_ofi_(?:prov_init|open_nw_provs): )",
                source="https://github.com/intel/ipex-llm/issues/11877",
                next="correct `FI_PROVIDER` and `FI_PROVIDER_PATH` in the job, or let oneCCL use MPI: `environment.variables: {CCL_ATL_TRANSPORT: mpi}`",
                anywhere=True,
            ),
            Form(
                cause="library-setting",
                texts=("error while creating worker thread #{} pthread_create returns 22",),
                source="https://github.com/intel/torch-ccl/issues/54",
                means="oneCCL cannot bind its worker threads to the cores that it chose: they are not among those of the rank",
                check="`taskset -pc $$` in a rank, and `CCL_WORKER_AFFINITY`, `CCL_WORKER_COUNT`, `I_MPI_PIN_DOMAIN` in the job",
                next="set `environment.variables: {CCL_WORKER_COUNT: 1}` and `CCL_WORKER_AFFINITY` to cores of each rank, or unset it if a module sets it; `dlrun plan` shows each rank's cores",
                anywhere=True,
            ),
            Form(
                cause="communication",
                texts=("Collective call returned error",),
                anywhere=True,
                regex=r"process_group_hccl|\|CCL_ERROR\| (.+)|oneCCL: (\S+ .*EXCEPTION.*)|(DIST call hccl api failed.*)|\bE[IJ]\d{4}: (.+)",
                source="https://github.com/uxlfoundation/oneCCL",
            ),
        ),
    ),
    Writer(
        name="GPUs of Intel",
        source="https://github.com/intel/intel-extension-for-pytorch",
        line=r"\b[UZ][RE]_RESULT_ERROR_\w+|\bPI_ERROR_\w+|XPU out of memory|No XPU devices|Native API (?:failed|returns)",
        forms=(
            Form(
                cause="gpu-memory",
                texts=(
                    "UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY",
                    "PI_ERROR_OUT_OF_RESOURCES",
                    "UR_RESULT_ERROR_OUT_OF_RESOURCES",
                    "PI_ERROR_OUT_OF_HOST_MEMORY",
                    "ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY",
                    "XPU out of memory",
                ),
                source="https://github.com/intel/intel-extension-for-pytorch/issues/640",
                anywhere=True,
                passing=True,
            ),
            Form(
                cause="gpu-broken",
                texts=(
                    "UR_RESULT_ERROR_DEVICE_LOST",
                    "ZE_RESULT_ERROR_DEVICE_LOST",
                    "PI_ERROR_DEVICE_NOT_AVAILABLE",
                    "Native API returns: 20 (",
                ),
                source="https://oneapi-src.github.io/level-zero-spec/level-zero/latest/core/api.html#ze-result-t",
                means="a GPU of Intel was lost: its driver reset it, or a fault of the device",
                check="`xpu-smi diag -d 0 -l 1` and `dmesg` on the node, and the memory that ranks used there (`dlrun usage JOB`)",
                anywhere=True,
            ),
            Form(
                cause="no-gpu",
                texts=("No device of requested type available", "No XPU devices are available"),
                source="https://github.com/intel/intel-extension-for-pytorch",
                check="`sycl-ls` in the job's environment on a node of the job, and `echo $ZE_AFFINITY_MASK $ONEAPI_DEVICE_SELECTOR` there",
                anywhere=True,
                passing=True,
            ),
            Form(
                cause="no-gpu",
                texts=("RuntimeError: could not create an engine",),
                source="https://github.com/intel/torch-ccl/issues/75",
                means="oneDNN found no device that it can use: the runtime of Level Zero or OpenCL is missing, or does not fit its build",
                check="`sycl-ls` and `clinfo -l` in the job's environment on a node of the job, and `ONEAPI_DEVICE_SELECTOR` there",
                next="load the modules of oneAPI and of the GPU's driver that this build of PyTorch names, and make no other one's libraries come first in `LD_LIBRARY_PATH`",
                anywhere=True,
            ),
            Form(
                cause="gpu-library",
                texts=("Native API failed. Native API returns: {1}",),
                source="https://github.com/intel/llvm",
                means="a call to a GPU's driver failed: {1}",
                check="`sycl-ls` in the job's environment on a node of the job",
                next="correct what the call is given; for a library's own call remove other versions from `LD_LIBRARY_PATH`, or install builds that belong together",
                passing=True,
                consequence=True,
            ),
        ),
    ),
    Writer(
        name="GPUs: queues, graphs and storage",
        source="https://docs.nvidia.com/cuda/",
        forms=(
            Form(
                cause="gpu-memory",
                texts=("HSA_STATUS_ERROR_OUT_OF_RESOURCES",),
                source="https://github.com/ROCm/ROCR-Runtime/blob/master/runtime/hsa-runtime/inc/hsa.h",
                means="AMD's runtime ran out of something on the GPU: its memory, queues of many processes, or the kernel's stack",
                check="`dlrun usage JOB` shows the memory that each GPU used; whether several ranks use one GPU",
                next="make `batch_per_rank` smaller, and let each rank use its own GPU",
                passing=True,
            ),
            Form(
                cause="configuration",
                texts=(
                    "operation not permitted when stream is capturing",
                    "operation failed due to a previous error during capture",
                    "operation would make the legacy stream depend on a capturing blocking stream",
                ),
                source="https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs",
                means="while a CUDA graph was recorded, the program did what cannot be in one: a copy to the host, an allocation, a print of a tensor",
                check="run once without graphs (vLLM: `--enforce-eager`; torch.compile: without the mode reduce-overhead)",
                next="run without CUDA graphs, or move that call out of the part that is recorded",
            ),
            Form(
                cause="gpu-library",
                texts=("cuFileDriverOpen failed", "GPUDirect Storage driver version mismatch"),
                source="https://docs.nvidia.com/gpudirect-storage/troubleshooting-guide/",
                means="GPUDirect Storage cannot be used on the node: its kernel module (nvidia-fs) is missing, or of another version",
                check="`gdscheck -p` and `lsmod | grep nvidia_fs` on the node",
                next="let it use the compatible mode (`allow_compat_mode` in cufile.json; KvikIO: `environment.variables: {KVIKIO_COMPAT_MODE: 'ON'}`), or ask the centre",
            ),
        ),
    ),
)
