"""The caches of compilers: which variable names each one's directory, and how the ranks of a node may share it."""

from __future__ import annotations

from typing import Literal

from dlrun.model.record import record


@record(frozen=True, slots=True, kw_only=True)
class Cache:
    """One variable of one tool.

    packages: the Python distributions with the tool, none for a part of the GPU's software; since: the first version whose
    files read the variable, as found in the packages on PyPI (Triton and TVM FFI: the oldest there; DeepGEMM: the first tag),
    empty if it is not known; each: one directory for a node, one for a rank where ranks that share it break one another, or one
    for a run where all nodes must begin alike;
    default: the tool's own place; gpus: the job must have GPUs of this kind; unless: a directory in the user's home that
    has what nodes may not be able to make (without a compiler, or a network): if it has entries, a job that does not ask
    for `caches: auto` uses it; settings: so does one that asks, because the user's own settings are there; switch: a variable
    that is 1 where the tool keeps anything, and 0 by default; compiles: a job with this tool alone has caches;
    because: why it is shared in this way.
    """

    tool: str
    packages: tuple[str, ...]
    variable: str
    directory: str
    each: Literal["node", "rank", "run"]
    default: str
    because: str
    source: str
    gpus: Literal["", "cuda", "rocm", "ze"] = ""
    since: str = ""
    unless: str = ""
    settings: bool = False
    switch: str = ""
    compiles: bool = True


CACHES = (
    Cache(
        tool="torch.compile",
        packages=("torch",),
        variable="TORCHINDUCTOR_CACHE_DIR",
        since="2.0",
        directory="inductor",
        each="node",
        default="$TMPDIR/torchinductor_$USER",
        because="entries are named by a hash and renamed into place",
        source="https://github.com/pytorch/pytorch/blob/main/torch/_inductor/runtime/cache_dir_utils.py",
    ),
    Cache(
        tool="Triton",
        packages=("torch", "triton"),
        variable="TRITON_CACHE_DIR",
        since="2.0",
        directory="triton",
        each="node",
        default="~/.triton/cache",
        because="entries are renamed into place, which fails on network file systems while others read",
        source="https://github.com/triton-lang/triton/blob/main/python/triton/runtime/cache.py",
    ),
    Cache(
        tool="torch C++ extensions",
        packages=("torch",),
        variable="TORCH_EXTENSIONS_DIR",
        since="1.0",
        directory="torch_extensions",
        each="node",
        default="~/.cache/torch_extensions",
        unless=".cache/torch_extensions",
        because="one rank compiles, the others wait for its lock file",
        source="https://pytorch.org/docs/stable/cpp_extension.html",
    ),
    Cache(
        tool="the CUDA driver",
        packages=(),
        variable="CUDA_CACHE_PATH",
        directory="cuda",
        each="node",
        default="~/.nv/ComputeCache",
        because="the driver locks its own files",
        source="https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-environment-variables",
        gpus="cuda",
    ),
    Cache(
        tool="MIOpen",
        packages=(),
        variable="MIOPEN_USER_DB_PATH",
        directory="miopen",
        each="node",
        default="~/.config/miopen",
        because="a database whose locks network file systems do not support",
        source="https://rocm.docs.amd.com/projects/MIOpen/en/latest/cache.html",
        gpus="rocm",
    ),
    Cache(
        tool="MIOpen",
        packages=(),
        variable="MIOPEN_CUSTOM_CACHE_DIR",
        directory="miopen",
        each="node",
        default="~/.cache/miopen",
        because="a database whose locks network file systems do not support",
        source="https://rocm.docs.amd.com/projects/MIOpen/en/latest/cache.html",
        gpus="rocm",
    ),
    Cache(
        tool="ROCm's code object manager",
        packages=(),
        variable="AMD_COMGR_CACHE_DIR",
        directory="comgr",
        each="node",
        default="~/.cache/comgr",
        because="entries are named by a hash and renamed into place",
        source="https://github.com/ROCm/llvm-project/blob/amd-staging/amd/comgr/README.md",
        gpus="rocm",
    ),
    Cache(
        tool="FlashInfer",
        packages=("flashinfer-python",),
        variable="FLASHINFER_WORKSPACE_BASE",
        since="0.2.5",
        directory="flashinfer",
        each="rank",
        default="~",
        because="its libraries are linked in place: ranks that share it end with SIGBUS",
        source="https://github.com/flashinfer-ai/flashinfer/blob/main/flashinfer/jit/env.py",
    ),
    Cache(
        tool="FlashInfer",
        packages=("flashinfer-python",),
        variable="FLASHINFER_CUBIN_DIR",
        since="0.2.12",
        directory="flashinfer-cubins",
        each="node",
        default="~/.cache/flashinfer/cubins",
        unless=".cache/flashinfer/cubins",
        because="kernels that are downloaded, once for all ranks",
        source="https://github.com/flashinfer-ai/flashinfer/blob/main/flashinfer/jit/env.py",
    ),
    Cache(
        tool="DeepGEMM",
        packages=("deep-gemm",),
        variable="DG_JIT_CACHE_DIR",
        since="2.1",
        directory="deep_gemm",
        each="node",
        default="~/.deep_gemm",
        because="directories are named by a hash and renamed into place",
        source="https://github.com/deepseek-ai/DeepGEMM/blob/main/csrc/jit/compiler.hpp",
    ),
    Cache(
        tool="TileLang",
        packages=("tilelang",),
        variable="TILELANG_CACHE_DIR",
        since="0.1.3",
        directory="tilelang",
        each="node",
        default="~/.tilelang/cache",
        because="directories are named by a hash and renamed into place",
        source="https://github.com/tile-ai/tilelang/blob/main/tilelang/cache/kernel_cache.py",
    ),
    Cache(
        tool="TVM FFI",
        packages=("apache-tvm-ffi",),
        variable="TVM_FFI_CACHE_DIR",
        since="0.1.0",
        directory="tvm-ffi",
        each="node",
        default="~/.cache/tvm-ffi",
        because="one rank builds, the others wait for its lock, which network file systems may not have",
        source="https://github.com/apache/tvm-ffi/blob/main/python/tvm_ffi/cpp/extension.py",
    ),
    Cache(
        tool="vLLM",
        packages=("vllm",),
        variable="VLLM_CACHE_ROOT",
        since="0.5.3",
        directory="vllm",
        each="node",
        default="~/.cache/vllm",
        because="compiled graphs are in directories by hash and rank",
        source="https://github.com/vllm-project/vllm/blob/main/vllm/envs.py",
    ),
    Cache(
        tool="Numba",
        packages=("numba",),
        variable="NUMBA_CACHE_DIR",
        since="0.32",
        directory="numba",
        each="node",
        default="__pycache__ beside the source",
        because="files are renamed into place",
        source="https://numba.readthedocs.io/en/stable/developer/caching.html",
    ),
    Cache(
        tool="JAX",
        packages=("jax",),
        variable="JAX_COMPILATION_CACHE_DIR",
        since="0.4.21",
        directory="jax",
        each="run",
        default="nowhere",
        because="process 0 writes, all read: where one has an entry and another has not, XLA's shared autotuning waits",
        source="https://docs.jax.dev/en/latest/persistent_compilation_cache.html",
    ),
    Cache(
        tool="the SYCL runtime",
        packages=(),
        variable="SYCL_CACHE_DIR",
        directory="sycl",
        each="node",
        default="~/.cache/libsycl_cache",
        because="an entry has a lock file while it is written, which network file systems keep if the job is killed",
        source="https://intel.github.io/llvm/EnvironmentVariables.html",
        gpus="ze",
        switch="SYCL_CACHE_PERSISTENT",
    ),
    Cache(
        tool="AWS Neuron",
        packages=("torch-neuronx", "libneuronxla"),
        variable="NEURON_COMPILE_CACHE_URL",
        directory="neuron",
        each="node",
        default="/var/tmp/neuron-compile-cache",  # noqa: S108 - not used, shown
        because="directories are named by a hash; one rank compiles, the others wait for its lock",
        source="https://awsdocs-neuron.readthedocs-hosted.com/en/latest/general/arch/neuron-features/neuron-caching.html",
    ),
    Cache(
        tool="Matplotlib",
        packages=("matplotlib",),
        variable="MPLCONFIGDIR",
        directory="matplotlib",
        each="node",
        default="~/.config/matplotlib and ~/.cache/matplotlib",
        unless=".config/matplotlib",
        settings=True,
        compiles=False,
        because="the list of fonts, which one rank writes under a lock file",
        source="https://matplotlib.org/stable/install/environment_variables_faq.html",
    ),
)
