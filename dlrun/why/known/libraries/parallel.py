"""Errors of what shares a training out over ranks: ZeRO, DDP, Horovod; processes and what is sent between them."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

_ZERO = "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/zero/"
_TORCH = "https://github.com/pytorch/pytorch/blob/main/torch/"
_NO_ELEMENTS = "a weight has no elements on this rank: ZeRO-3 or FSDP has shared it out, and it is used outside their forward"
_THROUGH_IT = "whether the call is made through the wrapped model"
_UNSHARD = "call the wrapped model's forward, or unshard the weight first (`summon_full_params` of FSDP, and DeepSpeed's own context for parameters that are shared out)"

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="ZeRO, FSDP, DDP, Horovod",
        source=_ZERO,
        forms=(
            Form(
                cause="collective-mismatch",
                texts=(
                    "still have inflight params",
                    "tracing error at step {1}",
                    "param.ds_status == ZeroParamStatus.AVAILABLE",
                    "invalid to reduce param {1}",
                ),
                source=_ZERO + "partitioned_param_coordinator.py",
                means="with ZeRO-3 the modules of the model ran in another order than in the step before, or some of them not at all (experts, branches, generation in between)",
                check="which modules run only for some inputs, and whether forward runs outside the engine",
                next="name such modules to DeepSpeed (`set_z3_leaf_modules`), call forward through the engine alone, or use ZeRO-2",
                passing=True,
            ),
            Form(
                cause="configuration",
                texts=("The size of tensor a (0) must match", "must match the size of tensor b (0)"),
                source="https://github.com/huggingface/transformers/issues/38667",
                means=_NO_ELEMENTS,
                check=_THROUGH_IT,
                next=_UNSHARD,
                stack=r"deepspeed/runtime/|torch/distributed/fsdp/|torch/distributed/_composable/fsdp/",
            ),
            Form(
                cause="configuration",
                texts=(
                    "'weight' must be 2-D",
                    "size mismatch, got {}, {}x{},0",
                    "Found param with shape torch.Size([0])",
                ),
                regex=r"\bcopying a param with shape torch\.Size\(\[[^\]]+\]\) from checkpoint, the shape in current model is torch\.Size\(\[0\]\)",
                source="https://github.com/huggingface/transformers/issues/38667",
                means=_NO_ELEMENTS,
                check=_THROUGH_IT,
                next=_UNSHARD,
            ),
            Form(
                cause="configuration",
                texts=(
                    "DistributedDataParallel is not needed when a module doesn't have any parameters that require a gradient",
                    "DeepSpeedEngine' object has no attribute '{1}'",
                    "DistributedDataParallel' object has no attribute '{1}'",
                    "FullyShardedDataParallel' object has no attribute '{1}'",
                    "DataParallel' object has no attribute '{1}'",
                ),
                source=_TORCH + "nn/parallel/distributed.py",
                means="the model is used in another way than its wrapper (DDP, FSDP, DeepSpeed) provides",
                next="wrap only modules that are trained; reach the model's own attributes by `.module`, and give DeepSpeed an optimizer",
            ),
            Form(
                cause="ranks",
                texts=("FSDP does not support uneven sharding on dim {1}",),
                source=_TORCH + "distributed/fsdp/_fully_shard/_fsdp_param.py",
                means="FSDP cannot share out a parameter over this number of ranks: its size is not a multiple of it ({1})",
                next="take a number of ranks that divides it (a power of two for most models), or shard along another dimension (`shard_placement_fn`)",
            ),
            Form(
                cause="configuration",
                texts=("Could not find the transformer layer {1} in the model",),
                source="https://github.com/huggingface/accelerate/blob/main/src/accelerate/utils/dataclasses.py",
                means="FSDP is to wrap a class of layers that the model does not have: {1}",
                check="`print(model)` has the names of its layers",
                next="correct `fsdp_transformer_layer_cls_to_wrap` in the configuration of accelerate or of the trainer",
            ),
            Form(
                cause="collective-mismatch",
                texts=(),
                regex=r"\bMismatched [\w/ ]{1,60}: One rank .*",
                source="https://github.com/horovod/horovod/blob/master/horovod/common/controller.cc",
                means="ranks gave Horovod tensors of different shapes, types or devices under one name",
                next="let all ranks build the same model and take the same branches; compare the last batch's size on each rank (`drop_last=True`)",
            ),
            Form(
                cause="configuration",
                texts=(
                    "is not supported for NCCL process group",
                    "Tensors must be contiguous",
                    "Tensor list input to scatter/gather must match number of collective participants",
                ),
                source=_TORCH + "csrc/distributed/c10d/ProcessGroupNCCL.cpp",
                means="a collective operation was given tensors that NCCL does not take",
                check="the traceback: which call",
                next="give it contiguous tensors on the rank's GPU, of a type that NCCL has (no booleans on old versions: `.to(torch.uint8)`)",
                passing=True,
            ),
            Form(
                cause="configuration",
                texts=("context has already been set",),
                source="https://docs.python.org/3/library/multiprocessing.html#multiprocessing.set_start_method",
                means="the method by which processes are started was chosen twice",
                next="call `set_start_method` once, below `if __name__ == '__main__'`, or with `force=True`",
                passing=True,
            ),
            Form(
                cause="configuration",
                texts=(
                    "cannot serialize a bytes object larger than 4 GiB",
                    "cannot serialize a string larger than 4GiB",
                ),
                source="https://docs.python.org/3/library/pickle.html#data-stream-format",
                means="what is sent to another process or stored is larger than an old form of pickle can hold (4 GiB)",
                next="let each process load it itself, or store it with `protocol=4`",
            ),
            Form(
                cause="gpu-build",
                texts=("too old to be supported by the triton GPU compiler",),
                source=_TORCH + "_inductor/scheduler.py",
                means="torch.compile cannot compile for this kind of GPU: Triton needs compute capability 7.0 or higher",
                check="`nvidia-smi --query-gpu=name,compute_cap --format=csv` on a node of the job",
                next="run without compilation (`environment.variables: {TORCH_COMPILE_DISABLE: 1}`), or ask for a newer GPU (`resources.constraint`)",
            ),
            Form(
                cause="compiler",
                texts=(),
                regex=r"\bptxas\b.*\bfatal +: Unsupported \.version ([\d.]+);",
                source="https://github.com/triton-lang/triton/issues/5929",
                means="the `ptxas` that is found is older than the compiler that made this code (PTX {1})",
                check="`which -a ptxas; ptxas --version` in the job's environment",
                next="remove the older CUDA from `PATH` and `environment.modules`, or name the newer one: `TRITON_PTXAS_PATH`, for XLA `XLA_FLAGS=--xla_gpu_cuda_data_dir=…`",
            ),
            Form(
                cause="command-missing",
                texts=(),
                regex=r"^(?:\[\S+\]:? ?)?make(?:\[\d+\])?: (\S+): (?:[Cc]ommand not found|No such file or directory)$",
                source="https://www.gnu.org/software/make/manual/html_node/Error-Messages.html",
                next="load a compiler (`environment.modules`), or build it once before the job on a login node",
                passing=True,
            ),
        ),
    ),
)
