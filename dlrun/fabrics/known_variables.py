"""The variables that communication, thread and training libraries read: a misspelt one is ignored by its library.

`data/known-variables.txt` has the names, with the sources of each library's. It is read only for a variable whose name begins
as theirs do.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from dlrun.model.nearest import SLIP, nearest, one_slip

FAMILIES = {
    "NCCL_": "NCCL", "FI_": "libfabric", "UCX_": "UCX", "HF_": "Hugging Face", "TRANSFORMERS_": "transformers",
    "HUGGINGFACE_": "Hugging Face", "TOKENIZERS_": "tokenizers", "WANDB_": "wandb", "OMP_": "OpenMP", "KMP_": "OpenMP",
    "MKL_": "MKL", "TORCH_": "PyTorch", "PYTORCH_": "PyTorch", "CUDA_": "CUDA",
    "GLOO_": "Gloo", "XLA_": "XLA", "JAX_": "JAX", "TF_": "TensorFlow", "OPENBLAS_": "OpenBLAS", "TRITON_": "Triton",
    "RAY_": "Ray", "ACCELERATE_": "Accelerate", "MPICH_": "MPICH", "I_MPI_": "Intel MPI",
}  # fmt: skip
"""Beginning of a name -> the library whose variables begin so."""
_ALIASES = {
    "NCCL_SOCKET_INTERFACE": "NCCL_SOCKET_IFNAME", "NCCL_IFNAME": "NCCL_SOCKET_IFNAME", "NCCL_INTERFACE": "NCCL_SOCKET_IFNAME",
    "NCCL_IB_DEVICE": "NCCL_IB_HCA", "NCCL_LOG_LEVEL": "NCCL_DEBUG", "NCCL_DEBUG_LEVEL": "NCCL_DEBUG",
    "OMP_THREADS": "OMP_NUM_THREADS", "MKL_THREADS": "MKL_NUM_THREADS", "WANDB_GROUP": "WANDB_RUN_GROUP",
    "WANDB_DIRECTORY": "WANDB_DIR", "WANDB_USER": "WANDB_ENTITY", "WANDB_TEAM": "WANDB_ENTITY", "OMP_BIND": "OMP_PROC_BIND",
    "WANDB_OFFLINE": "WANDB_MODE", "HF_OFFLINE": "HF_HUB_OFFLINE", "HF_CACHE": "HF_HOME", "HF_CACHE_DIR": "HF_HOME",
    "CUDA_DEVICES": "CUDA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICE": "CUDA_VISIBLE_DEVICES", "JAX_PLATFORM": "JAX_PLATFORMS",
    "TF_LOG_LEVEL": "TF_CPP_MIN_LOG_LEVEL", "TRITON_CACHE": "TRITON_CACHE_DIR", "FI_LOG": "FI_LOG_LEVEL",
}  # fmt: skip
"""Names that no library reads -> the variable that they probably stand for."""
_ALONE = {
    "PYTHON_PATH": ("Python", "PYTHONPATH"), "PYTHONUNBUFERED": ("Python", "PYTHONUNBUFFERED"),
    "PYTHON_UNBUFFERED": ("Python", "PYTHONUNBUFFERED"), "PYTHONBUFFERED": ("Python", "PYTHONUNBUFFERED"),
    "PYTHONFAULTHANDLERS": ("Python", "PYTHONFAULTHANDLER"), "PYTHON_HASH_SEED": ("Python", "PYTHONHASHSEED"),
    "LD_LIBRARY_PATHS": ("the dynamic linker", "LD_LIBRARY_PATH"), "LD_LIBARY_PATH": ("the dynamic linker", "LD_LIBRARY_PATH"),
    "NUMEXPR_NUM_THREAD": ("NumExpr", "NUMEXPR_NUM_THREADS"), "NUMEXPR_THREADS": ("NumExpr", "NUMEXPR_NUM_THREADS"),
}  # fmt: skip
"""The same for variables without a beginning of their own, with what reads them."""
_SETTINGS = {
    "PYTORCH_ALLOC_CONF": (
        "backend", "expandable_segments", "garbage_collection_threshold", "graph_capture_record_stream_reuse",
        "max_non_split_rounding_mb", "max_split_size_mb", "per_process_memory_fraction", "pinned_num_register_threads",
        "pinned_reserve_segment_size_mb", "pinned_use_background_threads", "pinned_use_cuda_host_register",
        "release_lock_on_cudamalloc", "roundup_bypass_threshold_mb", "roundup_power2_divisions", "throw_on_cudamalloc_oom",
        "use_async_allocator",
    ),
}  # fmt: skip
"""Variable -> the names in its value (docs.pytorch.org/docs/stable/notes/cuda.html, torch 2.13)."""


def known_settings(name: str) -> tuple[str, ...]:
    """The names in the value of a variable that is a list of `NAME:VALUE`."""
    return _SETTINGS[name]


@cache
def known() -> frozenset[str]:
    """All names of the table."""
    text = (Path(__file__).parent / "data" / "known-variables.txt").read_text("utf-8")
    return frozenset(re.sub(r"^#.*", "", text, flags=re.MULTILINE).split())


def misspelt(name: str) -> tuple[str, str] | None:
    """Library and nearest name for a variable that its library probably does not read; None for any other.

    A name that resembles no known one is left alone: libraries have more variables than any table.
    """
    plain = re.sub(r"[\s-]", "_", name.strip()).upper()
    if plain in _ALONE:
        return _ALONE[plain]
    if plain.startswith("NCLL_"):
        plain = "NCCL_" + plain[5:]
    family = next((begin for begin in FAMILIES if plain.startswith(begin)), None)
    if family is None or name in known():
        return None
    if plain in known():
        return FAMILIES[family], plain
    # Compared without the beginning, which would make all short names of a library alike.
    own = plain.removeprefix(family)
    same = sorted(variable.removeprefix(family) for variable in known() if variable.startswith(family))
    near = next((name for name in same if one_slip(own, name)), None) or nearest(own, same, cutoff=SLIP)
    meant = _ALIASES.get(plain) or (near and family + near)
    return (FAMILIES[family], meant) if meant else None
