"""Errors of libraries about the processes of a training: how many, which number, whose port, which part of the model."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

_TORCH = "https://github.com/pytorch/pytorch/blob/main/torch/"

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="processes of a training",
        source=_TORCH + "distributed/",
        forms=(
            Form(
                cause="configuration",
                texts=(),
                regex=r"\*\*\* (MPI_ERR_(?:TYPE|COUNT|BUFFER|ARG|COMM|RANK|TAG|ROOT|OP|GROUP|REQUEST|DIMS|TOPOLOGY|FILE|NO_SUCH_FILE|AMODE|ACCESS): .+)",
                source="https://docs.open-mpi.org/en/main/man-openmpi/man3/MPI_Errors.3.html",
                means="a call of MPI was given something that it rejects: {1}",
                check="the call that the lines above name",
                next="print what that call is given on each rank; many MPI libraries know neither half precision nor memory of a GPU",
            ),
            Form(
                cause="ranks",
                texts=(
                    "Mesh should not be bigger than default world size {1}",
                    "Invalid parallel dims: {1}",
                    "is larger than the number of available GPUs {1}",
                ),
                regex=r"(?:AssertionError|ValueError|RuntimeError): (.*\b(?:does(?: not|n't) match|not equal to|must (?:be )?equal(?: to)?|must match)\b.{0,40}\b(?:[Ww]orld[ _]?[Ss]ize|WORLD_SIZE|num_processes|number of (?:processes|ranks|GPUs|devices))\b.*)",
                source=_TORCH + "distributed/device_mesh.py",
            ),
            Form(
                cause="configuration",
                texts=(
                    "does not have a sharding strategy registered",
                    "got mixed torch.Tensor and DTensor",
                    "Sharding propagation failed for {1}",
                    "FSDP expects uniform original parameter dtype",
                    "FSDP parameters should be materialized from meta device",
                    "FSDP expects all parameters to be {1}",
                ),
                source=_TORCH + "distributed/tensor/_sharding_prop.py",
                means="FSDP or DTensor cannot shard a part of the model as it is written",
                check="the traceback: which module the call is in",
                next="shard or wrap that module with the rest, give its parameters one type, or leave it whole (`ignored_modules`, `Replicate`)",
            ),
            Form(
                cause="configuration",
                texts=("setting the environment variable CUDA_DEVICE_MAX_CONNECTIONS to 1",),
                regex=r"(CUDA_DEVICE_MAX_CONNECTIONS) (?:must be|to be|should be) (?:set to )?1\b",
                source="https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/training/arguments.py",
                means="Megatron needs `CUDA_DEVICE_MAX_CONNECTIONS=1` in the environment of each rank",
                next="`environment.variables: {CUDA_DEVICE_MAX_CONNECTIONS: 1}`",
            ),
            Form(
                cause="ranks",
                texts=(
                    "Duplicate task registration with task_name={1}",
                    "Unexpected task registered with task_name={1}",
                ),
                source="https://github.com/openxla/xla/tree/main/xla/tsl/distributed_runtime/coordination",
                means="two processes of JAX have the same number, or a process of another job asked for this job's coordinator",
                next="let dlrun start one process for each number (`framework: jax`), and let the program use DLRUN_MASTER_ADDR and DLRUN_MASTER_PORT",
            ),
            Form(
                cause="ranks",
                texts=(
                    "No available node types can fulfill resource request {1}",
                    "Placement group creation timed out. {}resources requested by the placement group: {1}",
                ),
                source="https://github.com/ray-project/ray/blob/master/python/ray/autoscaler/",
                means="no node of Ray has what a task asks for: {1}",
                next="see whether every node joined Ray (`dlrun logs JOB --rank all`), and compare the task's `num_gpus` and `num_cpus` with `dlrun plan`",
            ),
            Form(
                cause="port-in-use",
                texts=(
                    "is trying to use a port number {1} that is used by other components",
                    "Ray is trying to start at {1}, but is already running",
                ),
                source="https://github.com/ray-project/ray/blob/master/python/ray/_private/",
                means="a port of Ray was taken on the node: by another part of it, or by another job's Ray",
                next="give each job its own `--port` and range of `--min-worker-port`",
            ),
            Form(
                cause="collective-mismatch",
                texts=("Shape mismatch in the collective instance {1}",),
                source="https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/common_runtime/collective_param_resolver_local.cc",
            ),
            Form(
                cause="ssh-connection",
                texts=("ssh not successful for host {1}:",),
                source="https://github.com/horovod/horovod/blob/master/horovod/runner/launch.py",
                next="let dlrun start the ranks (`framework: horovod`) instead of `horovodrun`",
            ),
        ),
    ),
)
