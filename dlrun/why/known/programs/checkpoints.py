"""Errors of checkpoints that lack a part: the state of the optimizer."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

_LIGHTNING = "https://github.com/Lightning-AI/pytorch-lightning/"

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="checkpoints",
        source="https://docs.pytorch.org/docs/stable/distributed.checkpoint.html",
        forms=(
            Form(
                cause="checkpoint-damaged",
                texts=(),
                regex=r"invalid load key, 'v'|\bHeaderTooLarge\b|model_proto->ParseFromArray",
                source="https://git-lfs.com/",
                means="a file of the model is not what its name says: often it is the pointer of Git LFS (130 bytes of text) that stands for it",
                check="`head -c 200` of the file",
                next="`git lfs pull` in its directory, or fetch the model again (`data` with `hf://ORG/NAME`)",
            ),
            Form(
                cause="checkpoint-mismatch",
                texts=("A load persistent id instruction was encountered",),
                source="https://github.com/facebookresearch/detectron2/issues/2881",
                means="the file is one of `torch.save`, and the program reads it as a plain pickle",
                next="load it with `torch.load(FILE)`; where a library chooses by the file's name, give it the end that it expects (detectron2: `.pth`)",
            ),
            Form(
                cause="checkpoint-mismatch",
                texts=(
                    "The available devices are different from the devices used to save the checkpoint",
                    "Sharding of jax.Array cannot be None",
                ),
                source="https://github.com/google/orbax/issues/678",
                means="Orbax restores arrays onto the devices that wrote them, and this job has others, or another number of them",
                next="give the restore its own shardings (`StandardRestore` with `jax.ShapeDtypeStruct()`), or arrays of NumPy (`restore_type=np.ndarray`)",
                passing=True,
            ),
            Form(
                cause="ranks",
                texts=("in OCDBT database at {}: Configuration mismatch on uuid",),
                source="https://github.com/JaxionProject/jaxion/issues/1",
                means="several processes write one part of a checkpoint: each takes itself for the first, as JAX does not connect them",
                check="print `jax.process_index()` and `jax.process_count()` in each rank",
                next="call `jax.distributed.initialize()` before the first array, with a jaxlib and back end that run on several nodes",
            ),
            Form(
                cause="checkpoint-damaged",
                texts=(),
                regex=r"No such file or directory: '([^']*)/\.metadata'",
                source="https://docs.pytorch.org/docs/stable/distributed.checkpoint.html",
                means="the checkpoint has no `.metadata`, which is written last: it was not finished, or is of another kind: {1}",
                next="continue from the previous one: the newest directory that has a `.metadata`",
            ),
            Form(
                cause="checkpoint-mismatch",
                texts=(),
                regex=r"Missing key in checkpoint state_dict: (\S*optim\S*?)\.?$",
                source="https://github.com/huggingface/accelerate/issues/3971",
                means="the checkpoint has no state {1} of the optimizer: it was written without it, or under other names",
                check="the names that it has: `torch.distributed.checkpoint.FileSystemReader(DIR).read_metadata()`",
                next="load it with the version and settings that wrote it, or load the model alone and start with a new optimizer",
            ),
            Form(
                cause="checkpoint-mismatch",
                texts=(
                    "Trying to restore optimizer state but checkpoint contains only the model",
                    "Trying to restore training state but checkpoint contains only the model",
                ),
                source=_LIGHTNING
                + "blob/master/src/lightning/pytorch/trainer/connectors/checkpoint_connector.py",
                means="the program is to continue from a checkpoint that has the model alone (`save_weights_only`)",
                next="save with `save_weights_only=False`; from such a file load the model alone (`load_from_checkpoint`), without `ckpt_path`",
            ),
            Form(
                cause="checkpoint-mismatch",
                texts=(),
                regex=r"KeyError: 'optimizer_states'",
                stack=r"/strategies/\w+\.py\", line \d+, in save_checkpoint",
                source=_LIGHTNING + "issues/19492",
                means="Lightning's sharded checkpoints need the state of the optimizer, and `save_weights_only` leaves it out",
                check="the arguments of `ModelCheckpoint`",
                next="save with `save_weights_only=False`, or with `FSDPStrategy(state_dict_type='full')`",
            ),
        ),
    ),
)
