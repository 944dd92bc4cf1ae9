"""Errors of what a training is put together from: models, precision, checkpoints; of the libraries that do it."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

_HF = "https://github.com/huggingface/"
_TORCH = "https://github.com/pytorch/pytorch/blob/main/torch/"

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="models",
        source=_HF + "transformers",
        forms=(
            Form(
                cause="collective-mismatch",
                texts=("your LightningModule has parameters that were not used in producing the loss",),
                source="https://github.com/Lightning-AI/pytorch-lightning",
                next="use every parameter in the loss, or `strategy='ddp_find_unused_parameters_true'`",
            ),
            Form(
                cause="configuration",
                texts=(
                    "You can't train a model that has been loaded {1} in any distributed mode",
                    "`.to` is not supported for `4-bit` or `8-bit`",
                    "cannot be moved to a specific device",
                    "Attempting to unscale FP16 gradients",
                    "The module has CPU parameters or buffers when `sync_module_states=True`",
                    "bfloat16 and fp16 modes cannot be simultaneously enabled",
                    "Target modules {1} not found in the base model",
                    "does not have a padding token",
                    "requires the save and eval strategy to match",
                    "`ModelCheckpoint(monitor={1})` could not find the monitored key",
                    "Early stopping conditioned on metric {1} which is not available",
                    "BuilderConfig {1} not found. Available",
                    "Config name is missing",
                    "Unknown split {1}. Should be one of",
                    "no samples left to consume",
                    "jax.distributed.initialize() must be called before",
                    "jax.distributed.initialize should only be called once",
                    "Horovod has not been initialized",
                    "Maybe you called ray.init twice by accident",
                    "need to add an explicit nodesplitter to your input pipeline",
                    "MPI process group does not support multi-GPU collectives",
                ),
                source=_HF + "accelerate/blob/main/src/accelerate/accelerator.py",
                means="a library of the training was called with settings, or in an order, that it does not accept",
                next="correct what the line names in the program, its arguments or its configuration file",
                passing=True,
            ),
            Form(
                cause="configuration",
                texts=("Expected all tensors to be on the same device, but found at least two devices, {1}",),
                source=_TORCH + "_prims_common/__init__.py",
                means="the tensors of one operation are on several devices: a part of the model or of the batch was not moved to the rank's GPU",
                check="the traceback: which operation, and the devices of its tensors",
                next="call `torch.cuda.set_device(LOCAL_RANK)` first, and move model and batch to that device",
            ),
            Form(
                cause="checkpoint-mismatch",
                texts=("Cannot copy out of meta tensor; no data!",),
                source=_TORCH + "nn/modules/module.py",
                means="a part of the model has no weights: the checkpoint does not have them, or they were not loaded yet",
                next="load the checkpoint before the model is moved to the GPU (`to_empty`, `assign=True`), and compare its keys with the model's",
            ),
            Form(
                cause="gpu-memory",
                texts=(
                    "Some modules are dispatched on the CPU or the disk",
                    "had weights offloaded to the disk",
                    "InternalError: Dst tensor is not copied",
                ),
                source=_HF + "transformers/blob/main/src/transformers/quantizers/quantizer_bnb_4bit.py",
            ),
            Form(
                cause="file-missing",
                texts=(
                    "Can't find a valid checkpoint at {1}",
                    "is neither a `Dataset` directory nor a `DatasetDict` directory",
                    "Provided path: {1} is not a file",
                ),
                source=_HF + "transformers/blob/main/src/transformers/trainer.py",
            ),
            Form(
                cause="checkpoint-mismatch",
                texts=("value from checkpoint ({}) is not equal to the input argument value",),
                source="https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/training/checkpointing.py",
                passing=True,
            ),
            Form(
                cause="not-a-number",
                texts=("Unexpected result nan on rank {1}", "Unexpected result inf on rank {1}"),
                source="https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/core/rerun_state_machine.py",
            ),
        ),
    ),
)
