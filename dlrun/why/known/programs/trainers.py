"""Errors of libraries that shape a training: DeepSpeed's and Lightning's set-up, FSDP, DALI, renderers."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="training libraries",
        source="https://lightning.ai/docs/pytorch/stable/",
        forms=(
            Form(
                cause="configuration",
                texts=(
                    "requires an optimizer",
                    "Collective ops must be configured at program startup",
                    "Distributed system is not available; please initialize it via `jax.distributed",
                ),
                source="https://github.com/google-research/t5x/issues/1575",
                means="a library of the training was called with settings, or in an order, that it does not accept",
                next="correct what the line names in the program, its arguments or its configuration file",
                passing=True,
            ),
            Form(
                cause="no-gpu",
                texts=("But your machine only has: []",),
                source="https://github.com/Lightning-AI/pytorch-lightning/blob/master/src/lightning/fabric/utilities/device_parser.py",
            ),
            Form(
                cause="gpu-number",
                texts=("You requested gpu: {1}", "But your machine only has: {1}"),
                source="https://github.com/Lightning-AI/pytorch-lightning/blob/master/src/lightning/fabric/utilities/device_parser.py",
            ),
            Form(
                cause="file-missing",
                texts=("No valid checkpoint found in output directory ({1})",),
                source="https://github.com/huggingface/transformers/blob/main/src/transformers/trainer.py",
                means="the program is to continue from a checkpoint, and {1} has none",
                next="do not resume in the first run (only if the directory has a `checkpoint-*`), or name the directory that has one",
            ),
            Form(
                cause="gpu-memory",
                texts=(
                    'NVJPEG error "5"',
                    "NVJPEG_STATUS_ALLOCATOR_FAILURE",
                    "CUDA runtime API error cudaErrorMemoryAllocation",
                ),
                source="https://github.com/NVIDIA/DALI/issues/950",
                means="the decoder of images had no memory left on the GPU",
                next="decode smaller batches or with fewer threads, give DALI less padding (`device_memory_padding`), or leave the model more room",
            ),
            Form(
                cause="file-damaged",
                texts=(
                    'NVJPEG error "3"',
                    'NVJPEG error "4"',
                    "NVJPEG_STATUS_BAD_JPEG",
                    "NVJPEG_STATUS_JPEG_NOT_SUPPORTED",
                ),
                source="https://github.com/NVIDIA/DALI/issues/119",
            ),
            Form(
                cause="gpu-library",
                texts=("NVJPEG error {1}", "CUDA runtime API error cudaError{1} ("),
                source="https://github.com/NVIDIA/DALI/issues/6149",
                means="DALI's call of a GPU library failed ({1})",
                check="whether an earlier step of the same process failed on the GPU; `environment.variables: {CUDA_LAUNCH_BLOCKING: 1}` shows it",
                next="install the build of DALI for the CUDA version of the job, and set the rank's device before the pipeline is built (`device_id=LOCAL_RANK`)",
            ),
            Form(
                cause="checkpoint-mismatch",
                texts=("cannot reshape array of size {} into shape",),
                source="https://github.com/google/orbax/issues/648",
                stack=r"/orbax/|deserialize_sharding",
                means="the checkpoint was written by another number of devices than there are now",
                check="the mesh in the checkpoint's `_sharding` file, and `jax.device_count()` in the job",
                next="start with as many devices, or restore with shardings of the present mesh (`construct_restore_args`)",
            ),
            Form(
                cause="checkpoint-mismatch",
                texts=("Invalid access pattern for ShardedTensor", "Invalid access pattern for {1}"),
                source="https://github.com/NVIDIA-NeMo/Speech/issues/8460",
                means="the parts of a checkpoint do not make up the model's tensors: the ranks split the model in another way than they say",
                check="the sizes of tensor and pipeline parallelism, in the job and in the checkpoint's own configuration",
                next="start with the sizes that the checkpoint was written with, or convert it for the new ones",
            ),
            Form(
                cause="gpu-library",
                texts=("status: invalid resource handle", "cudaErrorInvalidResourceHandle"),
                regex=r"cudaCheckError\(\) failed ?: ?(.+)",
                source="https://github.com/tensorflow/tensorflow/issues/10961",
                means="a stream or event of one GPU was used while another was the current one, or an earlier call had failed",
                check="which device each process selects before its first call",
                next="let each rank see and use one GPU alone (`ranks_per_node` as many as GPUs), or select the device before any library that computes is imported",
            ),
            Form(
                cause="no-gpu",
                texts=(
                    "vkCreateInstance failed: {1}",
                    "ERROR_INCOMPATIBLE_DRIVER",
                    "[gpu.foundation.plugin] No device could be created",
                    "Failed to create any GPU devices",
                ),
                source="https://github.com/isaac-sim/IsaacLab/issues/3792",
                means="a renderer (Vulkan) found no GPU that it can use: it needs the driver's graphics libraries, and some GPUs only compute",
                check="`vulkaninfo --summary` on a node of the job, in the same container",
                next="ask for a GPU that renders (`resources.constraint`), and give the container the graphics libraries: `environment.variables: {NVIDIA_DRIVER_CAPABILITIES: all}`",
            ),
            Form(
                cause="gpu-broken",
                texts=("VkResult: ERROR_DEVICE_LOST", "A GPU crash occurred. Exiting the application"),
                source="https://github.com/isaac-sim/IsaacSim/issues/431",
            ),
            Form(
                cause="rank-variables",
                texts=("only works in distributed training",),
                source="https://github.com/pytorch/pytorch/issues/102434",
                means="the trainer sees one process alone: no variables say which rank of how many it is",
                next="let dlrun start the ranks (`framework: torch`), which sets RANK, WORLD_SIZE and LOCAL_RANK",
            ),
            Form(
                cause="configuration",
                texts=(
                    "You set `--ntasks={1}` in your SLURM bash script, but this variable is not supported",
                ),
                source="https://github.com/Lightning-AI/pytorch-lightning/blob/master/src/lightning/fabric/plugins/environments/slurm.py",
                means="Lightning rejects SLURM_NTASKS where the number of ranks on each node is not set",
                next="let dlrun start the ranks (`framework: lightning`), without `--ntasks` in `scheduler_options`",
            ),
            Form(
                cause="file-missing",
                texts=("Expected a string path to an existing deepspeed config{}Received: {1}",),
                source="https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/config.py",
            ),
            Form(
                cause="file-exists",
                texts=("Checkpoint directory {1} already exists",),
                source="https://github.com/huggingface/accelerate/issues/1374",
                next="set `accelerator.project_configuration.iteration` after a restart, or give each run its own directory",
            ),
            Form(
                cause="file-exists",
                texts=("ValueError: Destination {1} already exists.",),
                source="https://github.com/google/orbax",
            ),
            Form(
                cause="checkpoint-damaged",
                texts=("{1} is not a distributed checkpoint",),
                source="https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/core/dist_checkpointing/serialization.py",
                means="a checkpoint has no `metadata.json`: it was not written to its end, or is of another format",
            ),
            Form(
                cause="configuration",
                texts=("is greater than the derived max_model_len", "had unknown keys ({1})"),
                source="https://github.com/vllm-project/vllm/blob/main/vllm/config/model.py",
            ),
            Form(
                cause="configuration",
                texts=("Dataset scripts are no longer supported, but found {1}",),
                source="https://github.com/huggingface/datasets/issues/7693",
                means="the installed `datasets` (4.0 and later) does not run scripts of data sets: {1}",
                next="use the data set in Parquet, or install `datasets` below 4.0 in the job's environment",
            ),
            Form(
                cause="ranks",
                texts=("ElasticityIncompatibleWorldSize: {1}", "{1}, rank should be in the interval"),
                source="https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/elasticity/elasticity.py",
            ),
            Form(
                cause="configuration",
                texts=(
                    "Hostfile contains a bad entry: {1}, unable",
                    "Hostfile is not formatted correctly",
                    "No slot {1} specified on host",
                ),
                source="https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/launcher/runner.py",
                means="DeepSpeed's own launcher cannot read its list of hosts",
                next="let dlrun start the ranks (`framework: deepspeed`) instead of the `deepspeed` command",
            ),
            Form(
                cause="configuration",
                texts=(
                    "Please correct the following DeepSpeed config values that mismatch TrainingArguments",
                ),
                source="https://huggingface.co/docs/transformers/main/deepspeed",
                means="DeepSpeed's configuration file and the arguments of the training differ",
                next="set the values that the lines below name to `auto` in DeepSpeed's configuration file",
            ),
            Form(
                cause="configuration",
                texts=("You must use `--same_network` or",),
                source="https://github.com/huggingface/accelerate/blob/main/src/accelerate/utils/launch.py",
                means="accelerate's own launcher was not given the address of the first node",
                next="let dlrun start the ranks (`framework: accelerate`) instead of the `accelerate` command",
            ),
            Form(
                cause="not-a-number",
                texts=(
                    "probability tensor contains either `inf`, `nan` or element < 0",
                    "to satisfy the constraint {}, but found invalid values",
                ),
                source="https://github.com/pytorch/pytorch/blob/main/torch/distributions/distribution.py",
                means="the model's output is not a number (NaN), so that nothing can be drawn from it",
            ),
            Form(
                cause="port-in-use",
                texts=("TensorBoard could not bind to port {1}",),
                source="https://github.com/tensorflow/tensorboard",
                means="TensorBoard's port was taken by another process of the node",
                next="start it with `--port 0`, and not inside of the training's job",
                passing=True,
            ),
            Form(
                cause="abort",
                texts=("crashed with exit code -6",),
                regex=r"Container rank \d+ status failed cmd .* code -6\b",
                source="https://github.com/mosaicml/composer/blob/main/composer/cli/launcher.py",
                consequence=True,
            ),
            Form(
                cause="segmentation-fault",
                texts=("crashed with exit code -11",),
                regex=r"Container rank \d+ status failed cmd .* code -11\b",
                source="https://github.com/mosaicml/composer/blob/main/composer/cli/launcher.py",
                consequence=True,
            ),
            Form(
                cause="killed",
                texts=("crashed with exit code -9",),
                regex=r"Container rank \d+ status failed cmd .* code -9\b",
                source="https://github.com/mosaicml/composer/blob/main/composer/cli/launcher.py",
                consequence=True,
            ),
            Form(
                cause="killed",
                texts=("ProcessExitedException: process {} terminated with signal SIGKILL",),
                source="https://github.com/pytorch/pytorch/blob/main/torch/multiprocessing/spawn.py",
                consequence=True,
            ),
            Form(
                cause="segmentation-fault",
                texts=("ProcessExitedException: process {} terminated with signal SIGSEGV",),
                source="https://github.com/pytorch/pytorch/blob/main/torch/multiprocessing/spawn.py",
                consequence=True,
            ),
            Form(
                cause="abort",
                texts=("ProcessExitedException: process {} terminated with signal SIGABRT",),
                source="https://github.com/pytorch/pytorch/blob/main/torch/multiprocessing/spawn.py",
                consequence=True,
            ),
            Form(
                cause="configuration",
                texts=("Must flatten tensors with uniform `requires_grad` when `use_orig_params=False`",),
                source="https://pytorch.org/docs/stable/fsdp.html",
                means="FSDP was given frozen and trained parameters in one unit",
                next="`FullyShardedDataParallel(…, use_orig_params=True)`, or wrap frozen and trained modules apart",
            ),
        ),
    ),
)
