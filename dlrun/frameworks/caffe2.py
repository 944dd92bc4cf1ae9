"""Caffe2: one process per node, with a rendezvous in a directory on the shared file system.

The flags added to the command are those of `caffe2/python/examples/resnet50_trainer.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlrun.frameworks import protocol
from dlrun.frameworks.common import defaults
from dlrun.frameworks.protocol import Role, Shape
from dlrun.model.text import Text

NAME = "caffe2"
TITLE = "Caffe2"


def roles(shape: Shape, command: Sequence[Text], options: defaults.NoOptions) -> Sequence[Role]:
    """One process (shard) per node, with all GPUs of the node."""
    flags = [
        Text.of("--num_shards"),
        Text.of(str(shape.nodes)),
        Text.of("--shard_id"),
        Text.of(protocol.NODE_RANK),
        Text.of("--run_id"),
        Text.of(protocol.RUN_ID),
        Text.of("--file_store_path"),
        Text.of(protocol.RUN_DIR),
    ]
    if shape.gpus_per_node:
        flags += [Text.of("--num_gpus"), Text.of(str(shape.gpus_per_node))]
    if shape.interface is not None and shape.nodes > 1:
        flags += [Text.of("--distributed_interfaces"), Text.of(shape.interface)]
    return (Role(name="shard", place="node", argv=(*command, *flags), binds=False),)
