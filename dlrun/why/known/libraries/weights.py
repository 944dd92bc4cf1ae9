"""Errors of weights and models: a checkpoint of another model, a file without what the library needs, adapters."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

_KERAS = "https://github.com/keras-team/keras/blob/master/keras/src/"

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="Keras, Orbax, Flax, PEFT",
        source=_KERAS + "saving/",
        forms=(
            Form(
                cause="checkpoint-mismatch",
                texts=("axes don't match array", "was expecting shape {} but got"),
                source=_KERAS + "legacy/saving/legacy_h5_format.py",
                stack=r", in load_weights|, in load_model|, in load_state|, in preprocess_weights|, in from_pretrained",
            ),
            Form(
                cause="checkpoint-mismatch",
                texts=(
                    "Layer count mismatch when loading weights from file",
                    "You are trying to load a weight file containing {} layers into a model with {1}",
                    "Weight count mismatch for layer {1}",
                    "variables, but received {} variables during loading",
                    "The shape of the target variable and the shape of the target value",
                    "Trying to set a tensor of shape {} (which has shape {1}), this look",
                    "Size mismatch between saved {1}",
                    "Shape mismatch for {1} Checkpoint shape",
                    "User-provided restore item and on-disk value metadata tree structures do not match",
                    "is not compatible with the stored shape",
                    "The target structure does not match",
                    "ScopeParamShapeError: {1}",
                    "ScopeParamNotFoundError: {1}",
                    "adding `ignore_mismatched_sizes=True`",
                    "Unexpected key(s) when loading model from ckpt",
                    "the key set of param_state differs",
                ),
                source=_KERAS + "legacy/saving/legacy_h5_format.py",
                passing=True,
            ),
            Form(
                cause="configuration",
                texts=(
                    "File format not supported: filepath={1}. Keras 3",
                    "The filename must end in `.weights.h5`",
                    "Invalid filepath extension for saving",
                    "The `filepath` provided must end in",
                ),
                source=_KERAS + "saving/saving_api.py",
                means="Keras does not read or write a file of this name: its ending names the format",
                check="`ls -l` of the path, and the version of Keras that wrote it",
                next="name it `.keras` (model) or `.weights.h5` (weights); a SavedModel is read by `keras.layers.TFSMLayer`, or by Keras 2 (`tf_keras`, `environment.variables: {TF_USE_LEGACY_KERAS: 1}`)",
            ),
            Form(
                cause="file-missing",
                texts=(
                    "Can't find 'adapter_config.json' at {1}",
                    "Can't find weights for {1}",
                    "Unrecognized model in {1}. Should have a `model_type` key",
                    "Client provided checkpoint load path: {1} does not exist",
                    "Unable to find latest file at {1}, if trying to load latest",
                    "No structure could be identified for the checkpoint at {1}",
                ),
                source="https://github.com/huggingface/peft/blob/main/src/peft/config.py",
                means="the directory has no model or checkpoint of the kind that the program loads: {1}",
                check="`ls -l` of the directory on a compute node",
                next="name the directory that has it (often one level below: `checkpoint-500`, `global_step500`), or wait until it is written",
                passing=True,
            ),
            Form(
                cause="checkpoint-mismatch",
                texts=("KeyError: 'pytorch-lightning_version'",),
                regex=r"CheckpointingException: (?!Global shape mismatch)",
                source="https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/core/dist_checkpointing/core.py",
                means="the checkpoint is not of the kind, or not of the parallel sizes, that the program loads",
                next="check the checkpoint's directory and its files, and load it with the library, version and parallel sizes that wrote it, or convert it",
                passing=True,
            ),
        ),
    ),
)
