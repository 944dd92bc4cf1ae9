"""Errors of what compiles code while a training runs: Triton, torch.compile, extensions, and the caches of these."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

_TORCH = "https://github.com/pytorch/pytorch/blob/main/"

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="Triton, torch.compile and extensions",
        source="https://github.com/triton-lang/triton",
        forms=(
            Form(
                cause="cache-file",
                texts=("cannot cache function '{1}': no locator available",),
                source="https://numba.readthedocs.io/en/stable/developer/caching.html",
                means="a compiler's cache cannot be written where it is by default",
                next="`environment.variables: {NUMBA_CACHE_DIR: /tmp/numba}`",
            ),
            Form(
                cause="compiler",
                texts=(),
                regex=r"fatal error: (\S+\.(?:h|hpp|cuh|hh)): No such file or directory",
                source="https://github.com/lamikr/rocm_sdk_builder/issues/8",
            ),
            Form(
                cause="compiler",
                texts=(
                    "error: command '{1}' failed with exit",
                    "subprocess.CalledProcessError: Command '['ninja'",
                    "subprocess.CalledProcessError: Command '['which', '{1}'",
                    "Compilation failed: {1}",
                    "ptxas exited with non-zero error code",
                    "RuntimeError: Compiler: {1} is not found",
                    "hiprtcCompileProgram",
                    "NVRTC_ERROR_{1}",
                    "nvrtc: error: {1}",
                ),
                source="https://github.com/pytorch/pytorch/blob/main/torch/utils/cpp_extension.py",
                passing=True,
            ),
            Form(
                cause="cache-lock",
                texts=(
                    "Timeout waiting for lock {}torch_extensions",
                    "FileBaton: {1}",
                    "waiting for file lock {}torch_extensions",
                    "Waiting for lock {}torch_extensions",
                    "baton.wait()",
                ),
                source=_TORCH + "torch/utils/file_baton.py",
            ),
            Form(
                cause="cache-file",
                texts=(),
                regex=r"(?:Errno 116|Stale file handle|Errno 37|No locks available|Errno 16\b|Device or resource busy|FileNotFoundError: .*|Errno 39|Directory not empty).*(?:\.triton|torchinductor|torch_extensions|\.cache|triton[/_]cache|ComputeCache|flashinfer|tvm-ffi|tilelang|deep_gemm|\.nv/|miopen|jax_cache|__pycache__|numba)|(?:\.triton|torchinductor|torch_extensions|/\.cache/|ComputeCache|flashinfer|tvm-ffi|miopen).*(?:Stale file handle|Device or resource busy|Directory not empty|Input/output error|Bus error|No locks available)",
                source="https://github.com/triton-lang/triton/issues/11512",
            ),
            Form(
                cause="cache-quota",
                texts=(),
                regex=r"(?:Errno 122|[Dd]isk quota exceeded).*(?:/\.cache|/\.triton|/\.local|/\.nv|/\.conda|/\.apptainer|/\.singularity|torch_extensions|huggingface)|(?:/\.cache|/\.triton|/\.nv|/\.apptainer|/\.singularity|torch_extensions|huggingface).*(?:[Dd]isk quota exceeded)",
                source="https://huggingface.co/docs/huggingface_hub/guides/manage-cache",
            ),
            Form(
                cause="cache-database",
                texts=(
                    "database disk image is malformed",
                    "sqlite3.DatabaseError: {1}",
                    "sqlite3.OperationalError: disk I/O error",
                    "sqlite3.OperationalError: database is locked",
                    "MIOpen Error: {}kern_db",
                    "MIOpen: Unable to open database",
                    "Internal error while accessing SQLite database",
                ),
                source="https://github.com/ROCm/MIOpen/issues/114",
            ),
            Form(
                cause="compiler",
                texts=(
                    "Failed to find C compiler. Please specify via CC environment variable",
                    "Ninja is required to load C++ extensions",
                    "CUDA_HOME environment variable is not set",
                    "Cannot find ptxas",
                    "`ptxas` failed with error code",
                    "PTXAS error: {1}",
                    "Internal Triton PTX codegen error",
                    "InvalidCxxCompiler: No working C++ compiler found",
                    "CppCompileError: C++ compile error",
                    "Error building extension '{1}'",
                    "Error compiling objects for extension",
                    "nvcc fatal   : {1}",
                    "nvcc: command not found",
                    "gcc: command not found",
                    "ninja: build stopped: subcommand failed",
                    "fatal error: Python.h: No such file or directory",
                    "fatal error: cuda_runtime.h: No such file or directory",
                    "libcuda.so cannot found!",
                    "Unable to load extension {1}",
                    "MissingCUDAException: CUDA_HOME does not exist",
                    "Unable to JIT load the {1} op",
                    "cannot find -lcuda",
                    "cannot find -lcudart",
                    "The detected CUDA version ({}) mismatches the version that was used to compile",
                    "CUDAMismatchException",
                    "OpBuilder",
                    "hipcc: not found",
                    "libdevice not found at",
                    "Couldn't invoke ptxas",
                    "ptxas too old",
                    "No PTX compilation provider is available",
                ),
                source=_TORCH + "torch/utils/cpp_extension.py",
            ),
            Form(
                cause="missing-module",
                texts=("Cannot find a working triton installation", "TritonMissing: "),
                source="https://github.com/triton-lang/triton/issues/3708",
                means="PyTorch finds no Triton that works: it is missing, or of another version than this PyTorch needs",
                next="install the Triton that belongs to this PyTorch (`pip show torch` names it), or `environment.variables: {TORCH_COMPILE_DISABLE: 1}`",
            ),
            Form(
                cause="configuration",
                texts=(
                    "torch._dynamo.exc.Unsupported: {1}",
                    "torch._dynamo.exc.InternalTorchDynamoError: {1}",
                    "BackendCompilerFailed: backend='{1}' raised",
                    "triton.runtime.errors.OutOfResources: {1}",
                    "triton.compiler.errors.CompilationError: {1}",
                    "InductorError: {1}",
                ),
                source=_TORCH + "torch/_dynamo/exc.py",
                means="torch.compile or Triton could not compile a part of the model",
                check="run once with `environment.variables: {TORCH_LOGS: +dynamo}`",
                next="run once without compilation (`environment.variables: {TORCH_COMPILE_DISABLE: 1}`); the lines above name the part",
                passing=True,
            ),
        ),
    ),
)
