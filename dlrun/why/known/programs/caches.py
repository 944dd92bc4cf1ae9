"""Files of compilers' caches that fail below a shared directory: each tool, and the variable that moves its cache."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

# ruff: noqa: E501 - a table
_BEFORE = (
    r"(?:Errno 116|Stale file handle|Errno 37|No locks available|Errno 16\b|Device or resource busy|FileNotFoundError: "
    r"|filesystem::\w+: No such file or directory|Errno 39|Directory not empty|database disk image is malformed)"
)
_AFTER = (
    "(?:Stale file handle|Device or resource busy|Directory not empty|Input/output error|Bus error|No locks available"
    "|database disk image is malformed)"
)
_TOOLS = (
    ("FlashInfer", "flashinfer", "FLASHINFER_WORKSPACE_BASE", "flashinfer-ai/flashinfer"),
    ("TVM FFI", "tvm-ffi", "TVM_FFI_CACHE_DIR", "apache/tvm-ffi"),
    ("DeepGEMM", r"\.?deep_gemm", "DG_JIT_CACHE_DIR", "deepseek-ai/DeepGEMM"),
    ("TileLang", r"\.?tilelang", "TILELANG_CACHE_DIR", "tile-ai/tilelang"),
    ("vLLM", r"\.cache/vllm", "VLLM_CACHE_ROOT", "vllm-project/vllm"),
    ("MIOpen", r"\.?(?:cache|config)/miopen", "MIOPEN_USER_DB_PATH", "ROCm/MIOpen"),
    ("the CUDA driver", r"\.nv/ComputeCache", "CUDA_CACHE_PATH", "NVIDIA/cuda-samples"),
    ("JAX", "jax_cache", "JAX_COMPILATION_CACHE_DIR", "jax-ml/jax"),
    ("Numba", r"(?:__pycache__|numba)/\S*\.nb[ic]", "NUMBA_CACHE_DIR", "numba/numba"),
    ("torch extensions", "torch_extensions", "TORCH_EXTENSIONS_DIR", "pytorch/pytorch"),
    ("torch.compile", "torchinductor", "TORCHINDUCTOR_CACHE_DIR", "pytorch/pytorch"),
    ("Triton", r"\.triton|triton[/_]cache", "TRITON_CACHE_DIR", "triton-lang/triton"),
)
"""Name, a part of its cache's path, the variable, repository."""
_QUOTA = r"(?:Errno 122|[Qq]uota exceeded)"
_HUB = r"huggingface/(?:hub|datasets|modules)"

WRITERS = (
    Writer(
        name="caches of compilers",
        source="https://github.com/triton-lang/triton/issues/11512",
        forms=tuple(
            Form(
                cause="cache-file",
                texts=(),
                regex=rf"{_BEFORE}.*/(?:{path})|/(?:{path}).*{_AFTER}",
                source=f"https://github.com/{repository}",
                means=f"the cache of {name} is on a network file system, where the ranks replace files below one another",
                next=f"`caches: auto` (the default) keeps it on node-local storage, unless the spec, a module or a set-up line "
                f"sets {variable}: then name such a directory there, `environment.variables: {{{variable}: /tmp/cache}}`",
            )
            for name, path, variable, repository in _TOOLS
        )
        + tuple(
            Form(
                cause="cache-file",
                texts=(),
                regex="[Bb]us error",
                stack=rf"/(?:{path})",
                source=f"https://github.com/{repository}",
                means=f"a file in the cache of {name} was replaced or cut short while a process had it mapped (SIGBUS): "
                "ranks or nodes share it",
                next=f"`caches: auto` (the default) keeps it on node-local storage, unless the spec, a module or a set-up line "
                f"sets {variable}: then name such a directory there, `environment.variables: {{{variable}: /tmp/cache}}`",
            )
            for name, path, variable, repository in _TOOLS
        )
        + (
            Form(
                cause="cache-file",
                texts=(),
                regex=r"Errno (?:2|16|39|116)\]",
                stack=r"/triton/(?:runtime/cache|compiler/compiler)\.py\"",
                source="https://github.com/triton-lang/triton/issues/11512",
                means="the cache of Triton is on a network file system, where the ranks replace files below one another",
                next="keep it on node-local storage: `environment.variables: {TRITON_CACHE_DIR: /tmp/cache}`, or no such variable, so that `caches: auto` (the default) does",
            ),
        )
        + tuple(
            Form(
                cause="cache-quota",
                texts=(),
                regex=rf"{_QUOTA}.*/(?:{path})|/(?:{path}).*{_QUOTA}",
                source=f"https://github.com/{repository}",
                means=f"a disk quota is used up by the cache of {name}",
                next=f"`caches: auto` (the default) keeps it on node-local storage, unless {variable} is set: "
                f"then name such a directory there, `environment.variables: {{{variable}: /tmp/cache}}`",
            )
            for name, path, variable, repository in _TOOLS
        ),
    ),
    Writer(
        name="locks of files in Python",
        source="https://py-filelock.readthedocs.io/",
        forms=(
            Form(
                cause="file-locks",
                texts=("FileSystem does not appear to support flock",),
                source="https://github.com/huggingface/huggingface_hub/issues/2399",
                means="the file system has no locks (Lustre without `flock`, some NFS), and a library locks its files",
                next="keep the cache on another file system (`environment.variables: {HF_HOME: /tmp/huggingface}`), or ask the centre for `flock`; what is named under `data` is fetched by `dlrun submit`",
            ),
            Form(
                cause="file-locks",
                texts=(),
                regex=r"Errno (?:37|38|95)\]",
                stack=r"/filelock/|/portalocker/",
                source="https://github.com/huggingface/datasets/issues/6505",
                means="the file system has no locks that work, and a library locks its files",
                next="keep the cache on another file system (`environment.variables: {HF_HOME: /tmp/huggingface}`), or ask the centre for `flock`; what is named under `data` is fetched by `dlrun submit`",
            ),
            Form(
                cause="file-locks",
                texts=(),
                regex=r"Errno (?:37|38|95)\]",
                stack=r"/conda/gateways/disk/lock\.py\"",
                source="https://github.com/conda/conda/issues/13921",
                means="conda locks its cache, whose file system has no locks that work",
                next="build the environment once on a login node, and name it with `environment.conda`; or `environment.setup: [conda config --set no_lock true]`",
            ),
            Form(
                cause="file-locks",
                texts=(),
                regex=r"Errno 9\]",
                stack=r"\b(?:flock|lockf) ?\([^\n]*\Z",
                source="https://github.com/ansible/awx/issues/3926",
                means="a file was locked in a way for which it was not opened: on NFS an exclusive lock needs one that is open for writing, a shared one for reading",
                next="open the file that it locks for both (`open(path, 'a+')`), or let it lock one on node-local storage (`/tmp`)",
            ),
            Form(
                cause="file-locks",
                texts=(),
                regex=r"Errno (?:38|95)\]",
                stack=r"(?m:, in (?i:_?(?:\w+_)?(?:f|file)?lock\w*|_?acquire\w*)$)",
                source="https://github.com/SModelS/smodels/issues/37",
                means="the file system has no locks that work, and the program locks a file there",
                next="let it lock a file on node-local storage (`/tmp`), or keep its directory there; or ask the centre for `flock`",
            ),
        ),
    ),
    Writer(
        name="the cache of the Hugging Face Hub",
        source="https://huggingface.co/docs/huggingface_hub/guides/manage-cache",
        forms=tuple(
            Form(
                cause=cause,
                texts=(),
                regex=rf"(?:{text}).*/{_HUB}|/{_HUB}.*(?:{text})",
                source="https://huggingface.co/docs/huggingface_hub/guides/manage-cache",
                means=means,
                next="name what is read under `data` (as `hf://ORG/NAME`): `dlrun submit` fetches it once; or move the cache: "
                "`environment.variables: {HF_HOME: /scratch/me/huggingface}`",
            )
            for cause, text, means in (
                ("cache-quota", _QUOTA, "a disk quota is used up by the cache of the Hugging Face Hub"),
                (
                    "file-locks",
                    "Errno 37|No locks available",
                    "the cache of the Hugging Face Hub is on a file system without locks, and each rank locks its files",
                ),
                (
                    "cache-file",
                    "Errno 116|Stale file handle",
                    "the cache of the Hugging Face Hub is on a network file system, where another rank has replaced a file",
                ),
            )
        ),
    ),
)
