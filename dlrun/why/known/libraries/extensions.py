"""Errors of libraries that are not installed, or were built without the part that a training needs."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

_PACKAGE = r"(?:.*?[\s`'\"(])?(?!(?:drivers?|toolkit|firmware|kernel|needs?|has|have|ought)\b)([a-zA-Z][\w.-]+)[`'\")]? "
"""The name of a package, wherever in a message; what a node's administrators install is none."""
_A_PACKAGE = r"(?:library|package|module) "
_ABSENT = r"(?:(?:is|was) not installed|to be installed|seems? (?:to be )?not (?:to be )?installed)"
"""What is said only of packages."""
_NEEDED = r"(?:(?:is|are) required(?: but|$|\.|,? (?:to|for)\b)|(?:must|should|needs? to|ha(?:s|ve) to) be installed)"
"""What is said of arguments, too."""
_BNB = "https://github.com/bitsandbytes-foundation/bitsandbytes/blob/main/bitsandbytes/cextension.py"
_NO_CUDA = "bitsandbytes has no library for this CUDA, or finds none of CUDA's own"
_BY_ITSELF = "`python -m bitsandbytes` in the job's environment on a compute node"
_ITS_CUDA = "load the module of the CUDA that PyTorch is built for (`environment.modules`), or install a bitsandbytes that has its library"

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="extensions",
        source="https://github.com/NVIDIA/apex",
        forms=(
            Form(
                cause="gpu-build",
                texts=(
                    "requires cuda extensions",
                    "requires CUDA extensions",
                    "wasn't build with CUDA support",
                    "not compiled with GPU support",
                    "not compiled with CUDA support",
                    "is not built with CUDA",
                    "GPU is not enabled",
                    "not compiled with flash attention",
                    "not linked with support for cuda devices",
                    "Op kernel not registered for GPU",
                    "was not built with CUDA",
                    "was not built with ROCm",
                    "Fused kernels not installed",
                ),
                regex=r"(?:Error|Exception): .*\b(?:not|without|n't) (?:been )?(?:compiled|built|build|installed) (?:with|for) (?:the )?(?:CUDA|GPU|ROCm|HIP|cuda|gpu)\b",
                source="https://github.com/NVIDIA/apex",
                means="a library was built without its part for the GPU",
                check="`pip list`, and how that library was installed: on a node without a compiler or a GPU its extensions are left out",
                next="install its build for the GPU, or build it again on a node with CUDA's compiler (apex: `APEX_CPP_EXT=1 APEX_CUDA_EXT=1`), with the same PyTorch as in the job",
                passing=True,
            ),
            Form(
                cause="build-mismatch",
                texts=("MPI is not built in", "Gloo is not built in", "UCC is not built in"),
                source="https://github.com/pytorch/pytorch/blob/main/torch/distributed/distributed_c10d.py",
                means="this PyTorch was built without a back end that the program asks for",
                check="`python -c 'import torch.distributed as d; print(d.is_nccl_available(), d.is_mpi_available())'` in the job's environment",
                next="ask for another one (`init_process_group('nccl')` for GPUs, `'gloo'` for CPUs), or install a build of PyTorch that has it",
                passing=True,
            ),
            Form(
                cause="build-mismatch",
                texts=("torchvision::{1} does not exist", "torchaudio::{1} does not exist"),
                source="https://github.com/pytorch/vision/issues/8938",
                means="torchvision or torchaudio was not built for the PyTorch that is installed",
                next="install both again together, from one source and for one version of CUDA",
            ),
            Form(
                cause="missing-library",
                texts=(
                    "CUDA Setup Error: {1}",
                    "Configured {}binary not found at {1}",
                    "has no attribute 'cadam32bit_grad_fp32'",
                    "has no attribute 'cquantize_blockwise_fp16_nf4'",
                    "bitsandbytes native library functionality but it's not available",
                ),
                source=_BNB,
                means=_NO_CUDA,
                check=_BY_ITSELF,
                next=_ITS_CUDA,
            ),
            Form(
                cause="missing-library",
                texts=("Required library version not found: {1}",),
                source=_BNB,
                means=_NO_CUDA,
                check=_BY_ITSELF,
                next=_ITS_CUDA,
                passing=True,
            ),
            Form(
                cause="missing-module",
                texts=(),
                regex=rf"(?:Error|Exception|Missing): {_PACKAGE}(?:{_A_PACKAGE}(?:{_ABSENT}|{_NEEDED})|{_ABSENT}|{_NEEDED}(?=.*\b(?:pip|conda) install\b))"
                rf"|(?:ImportError|ModuleNotFoundError|\b[A-Z]\w{{1,60}}Missing): {_PACKAGE}{_NEEDED}",
                source="https://github.com/huggingface/accelerate/blob/main/src/accelerate/accelerator.py",
                means="the program needs a package that the job's environment does not have",
                passing=True,
            ),
        ),
    ),
)
