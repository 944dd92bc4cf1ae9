"""Errors of other accelerators than GPUs of NVIDIA and AMD, and of their communication libraries: Gaudi, Ascend, oneCCL."""

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
                texts=(
                    "ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY",
                    "UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY",
                    "EL0004: Failed to allocate memory",
                ),
                source="https://github.com/intel/intel-extension-for-pytorch/issues/640",
                anywhere=True,
            ),
            Form(
                cause="gpu-broken",
                texts=("ZE_RESULT_ERROR_DEVICE_LOST", "UR_RESULT_ERROR_DEVICE_LOST"),
                source="https://oneapi-src.github.io/level-zero-spec/level-zero/latest/core/api.html#ze-result-t",
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
                regex=r"\|CCL_ERROR\| .*(?:fi_getinfo error|can not open network providers)",
                source="https://github.com/intel/ipex-llm/issues/11877",
                next="correct `FI_PROVIDER` and `FI_PROVIDER_PATH` in the job, or let oneCCL use MPI: `environment.variables: {CCL_ATL_TRANSPORT: mpi}`",
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
)
