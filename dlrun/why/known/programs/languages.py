"""Errors of programs in other languages than Python: MATLAB, R, Julia, Fortran."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

_FORTRAN = "https://www.intel.com/content/www/us/en/docs/fortran-compiler/developer-guide-reference/2024-0/list-of-run-time-error-messages.html"

_JULIA = "https://github.com/JuliaLang/julia/blob/master/"
_R = "https://stat.ethz.ch/R-manual/R-devel/library/"
_MATLAB = "https://www.mathworks.com/help/"

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="MATLAB",
        source=_MATLAB,
        forms=(
            Form(
                cause="gpu-memory",
                texts=("Out of memory on device. {1}",),
                source=_MATLAB + "parallel-computing/gpudevice.html",
                means="a GPU's memory was too small for what MATLAB keeps there",
                next="use a smaller `MiniBatchSize` or smaller arrays, and clear those on the GPU that are not needed",
            ),
            Form(
                cause="no-gpu",
                texts=("Unable to find a supported GPU device", "GPU computing requires a supported GPU"),
                source=_MATLAB + "parallel-computing/gpu-computing-requirements.html",
            ),
            Form(
                cause="memory",
                texts=(
                    "Requested {} array exceeds maximum array size preference",
                    "Failure to start JVM",
                    "Out of Memory during deserialization",
                ),
                regex=r"^Out of memory\.(?: Type \"help memory\" for your options\.)?$",
                source=_MATLAB + "matlab/matlab_prog/resolving-out-of-memory-errors.html",
            ),
            Form(
                cause="ranks",
                texts=(
                    "You requested a minimum of {1}, but the cluster",
                    "Requested number of workers ({1}) exceeds the maximum",
                    "has the NumWorkers property set to allow a maximum of {1}. To run",
                ),
                source=_MATLAB + "parallel-computing/parpool.html",
                means="the program asks for more MATLAB workers than its profile allows",
                next="ask for at most the cores of the job: `c = parcluster('local'); c.NumWorkers = str2double(getenv('SLURM_CPUS_PER_TASK')); parpool(c)`, and enough `resources.cpus_per_rank`",
            ),
            Form(
                cause="file-system",
                texts=(
                    "Failed to locate and destroy old interactive jobs",
                    "Unable to write to MAT-file {1}. File may be corrupt",
                    "The parallel pool job was cancelled or failed",
                    "The parallel pool job errored with the following message: {1}",
                ),
                regex=r"\bParallel pool failed to start\b",
                source="https://github.com/uabrc/uabrc.github.io/issues/531",
                means="the parallel pool did not start: often several jobs write into one directory of jobs (`~/.matlab`), or its file system is full",
                check="`quota` and `df -h ~`; whether other MATLAB jobs of yours start at the same time",
                next="give each job its own: `c = parcluster('local'); c.JobStorageLocation = getenv('TMPDIR'); parpool(c)`; delete `~/.matlab/local_cluster_jobs`",
            ),
            Form(
                cause="file-missing",
                texts=(
                    "Unable to find file or directory '{1}'.",
                    "Unable to read file '{1}'. No such file or directory",
                    "Unable to open file '{1}' for reading",
                ),
                source=_MATLAB + "matlab/ref/load.html",
                passing=True,
            ),
            Form(
                cause="segmentation-fault",
                texts=("Segmentation violation detected at {}",),
                source=_MATLAB + "matlab/matlab_env/error-log-reporter.html",
                consequence=True,
            ),
            Form(
                cause="bus-error",
                texts=("Bus error detected at {}",),
                source=_MATLAB + "matlab/matlab_env/error-log-reporter.html",
                consequence=True,
            ),
            Form(
                cause="abort",
                texts=("abort() detected at {}", "Abnormal termination detected at {}"),
                source=_MATLAB + "matlab/matlab_env/error-log-reporter.html",
                consequence=True,
            ),
        ),
    ),
    Writer(
        name="R",
        source=_R,
        forms=(
            Form(
                cause="memory",
                texts=("Error: cannot allocate vector of size {1}",),
                source="https://stat.ethz.ch/R-manual/R-devel/library/base/html/Memory-limits.html",
            ),
            Form(
                cause="missing-module",
                texts=("there is no package called {1}",),
                source="https://stat.ethz.ch/R-manual/R-devel/library/base/html/library.html",
                means="a package of R is not installed: {1}",
                check="`Rscript -e '.libPaths()'` in the job's environment",
                next="install it on a login node (install.packages), with the R that the job loads, into a directory that the nodes see (`R_LIBS_USER`)",
            ),
            Form(
                cause="rendezvous",
                texts=("Cluster setup failed. {1} workers failed to connect",),
                source="https://github.com/dlab-berkeley/R-Machine-Learning-Legacy/issues/6",
                means="R started processes that did not connect to it in time: {1}",
                check="how many cores the job has (`parallelly::availableCores()`), and whether `ssh NODE Rscript -e 1` works for those on other nodes",
                next="start at most as many as there are cores, with `makeCluster(n, setup_strategy = 'sequential')` or a longer `setup_timeout`; on one node prefer `makeForkCluster`",
            ),
            Form(
                cause="peer-lost",
                texts=("Error in unserialize(node$con) : error reading from connection",),
                regex=r"^Error in unserialize\(\w+\$con\)|\berror (?:reading from|writing to) connection$",
                source=_R + "parallel/html/makeCluster.html",
                means="R lost a process of its cluster: it ended, often because memory ran out",
                consequence=True,
            ),
            Form(
                cause="segmentation-fault",
                texts=("*** caught segfault ***",),
                source=_R + "base/html/dyn.load.html",
                consequence=True,
            ),
            Form(
                cause="bus-error",
                texts=("*** caught bus error ***",),
                source=_R + "base/html/dyn.load.html",
                consequence=True,
            ),
            Form(
                cause="illegal-instruction",
                texts=("*** caught illegal operation ***",),
                source=_R + "base/html/dyn.load.html",
                consequence=True,
            ),
        ),
    ),
    Writer(
        name="Julia",
        source="https://docs.julialang.org/en/v1/manual/stacktraces/",
        forms=(
            Form(
                cause="gpu-memory",
                texts=("Out of GPU memory trying to allocate {1}",),
                source="https://cuda.juliagpu.org/stable/usage/memory/",
            ),
            Form(
                cause="missing-module",
                texts=(
                    "Package {1} not found in current path",
                    "Package {1} is required but does not seem to be installed",
                ),
                source="https://github.com/JuliaLang/julia/blob/master/base/loading.jl",
                means="a package of Julia is not installed: {1}",
                check="`julia --project -e 'using Pkg; Pkg.status()'` in the job's environment",
                next="install it on a login node (`julia --project -e 'using Pkg; Pkg.instantiate()'`), start the job with the same `--project`, and keep `JULIA_DEPOT_PATH` where the nodes see it",
            ),
            Form(
                cause="segmentation-fault",
                texts=("signal (11): Segmentation fault", "signal 11 ({}): Segmentation fault"),
                regex=r"^(?:\[\d+\] )?signal \(?11\S*.*: Segmentation fault",
                source=_JULIA + "src/signals-unix.c",
                consequence=True,
            ),
            Form(
                cause="bus-error",
                texts=("signal (7): Bus error", "signal 7 ({}): Bus error"),
                regex=r"^(?:\[\d+\] )?signal \(?7\S*.*: Bus error",
                source=_JULIA + "src/signals-unix.c",
                consequence=True,
            ),
            Form(
                cause="abort",
                texts=("signal (6): Aborted", "signal 6 ({}): Aborted"),
                regex=r"^(?:\[\d+\] )?signal \(?6\S*.*: Aborted",
                source=_JULIA + "src/signals-unix.c",
                consequence=True,
            ),
            Form(
                cause="terminated",
                texts=("signal (15): Terminated", "signal 15: Terminated"),
                source=_JULIA + "src/signals-unix.c",
                consequence=True,
            ),
            Form(
                cause="peer-lost",
                texts=("ERROR: LoadError: ProcessExitedException({1})", "Worker {1} terminated."),
                source=_JULIA + "stdlib/Distributed/src/cluster.jl",
                means="a process of Julia's Distributed ended: {1}",
                consequence=True,
            ),
        ),
    ),
    Writer(
        name="Fortran",
        source=_FORTRAN,
        forms=(
            Form(
                cause="segmentation-fault",
                texts=("forrtl: severe (174): SIGSEGV",),
                source=_FORTRAN,
                next="`environment.setup: [ulimit -s unlimited]`: often arrays do not fit on the stack; otherwise update or rebuild the library at the top of the stack",
                consequence=True,
            ),
            Form(
                cause="terminated",
                texts=("forrtl: error (78): process killed (SIGTERM)",),
                source=_FORTRAN,
                consequence=True,
            ),
        ),
    ),
)
