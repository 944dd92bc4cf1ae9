"""Errors of Python's own modules that depend on where a program runs: its locale, its way to start processes, its display."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

_SPAWN = "https://docs.python.org/3/library/multiprocessing.html#the-spawn-and-forkserver-start-methods"

# ruff: noqa: E501 - a table
LINKER = Writer(
    name="the dynamic linker",
    source="https://man7.org/linux/man-pages/man8/ld.so.8.html",
    line=r"^\W{0,40}(?:\d+: |\[\S{1,80}\]:?\s*)?\S+: symbol lookup error: ",
    forms=(
        Form(
            cause="build-mismatch",
            texts=("symbol lookup error: {1}: undefined symbol",),
        ),
    ),
)
"""Its lines begin with the program that was started, and name libraries of any other writer."""
WRITERS = (
    Writer(
        name="Python's own modules",
        source="https://docs.python.org/3/library/",
        forms=(
            Form(
                cause="file-exists",
                texts=(),
                regex=r"No such file or directory: '([^']*\.(?:tmp|temp|part|partial|incomplete)\b[^']*)' -> '",
                source="https://github.com/mosaicml/streaming/issues/405",
                means="several ranks wrote one file at a time: another one had renamed or removed {1} already",
                check="whether each rank sees its own RANK and LOCAL_RANK, by which such a library chooses the one that writes",
                next="let one rank of each node write it before the others read it, or give each rank its own directory",
            ),
            Form(
                cause="file-missing",
                texts=(),
                regex=r"No such file or directory: b?['\"](/(?:tmp|local|localscratch|var/tmp|dev/shm|nvme|ssd|mnt/(?:local|nvme)\w*)/[^'\"]+)",
                source="https://docs.python.org/3/library/exceptions.html#FileNotFoundError",
                means="a file does not exist on this node's own disk: {1}",
                check="`ls -l` of the path on each of the job's nodes",
                next="a directory such as `/tmp` is another one on each node: write and read the file on a file system that all nodes share, or copy it to each",
                passing=True,
            ),
            Form(
                cause="command-missing",
                texts=(),
                regex=r"(?:^|: |\s)(--?[A-Za-z][\w-]*)(?:=\S*)?: (?:(?:command )?not found\b|No such file or directory)",
                source="https://www.gnu.org/software/bash/manual/bash.html#Command-Search-and-Execution",
                means="an option ({1}) stands where a command is expected",
                check="`dlrun plan --script` shows the command as the node runs it",
                next="options of a launcher or of a container's runtime come before the image and the command; a line that continues ends with `\\`, without a space after it",
            ),
            Form(
                cause="build-mismatch",
                texts=("unsupported pickle protocol: {1}",),
                source="https://docs.python.org/3/library/pickle.html#data-stream-format",
                means="the file was written by a newer Python than the one that reads it (protocol {1})",
                next="read it with the Python that wrote it, or write it again with `protocol=4`",
            ),
            Form(
                cause="command-missing",
                texts=("JAVA_HOME is not set", "[JAVA_GATEWAY_EXITED]"),
                source="https://spark.apache.org/docs/latest/api/python/getting_started/install.html",
                means="the program needs Java, which the job's environment does not have",
                check="`java -version` in the job's environment on a compute node",
                next="load its module (`environment.modules`), which sets `JAVA_HOME`",
                passing=True,
            ),
            Form(
                cause="command-missing",
                texts=("[ERROR] Command not found: {1}",),
                source="https://github.com/NVIDIA/enroot/blob/master/src/common.sh",
                next="ask the centre to install it on the compute nodes: the container's runtime needs it",
            ),
            Form(
                cause="gpu-number",
                texts=(),
                regex=r"IndexError: list index out of range",
                source="https://github.com/willisma/SiT/pull/25",
                stack=r"torch/nn/parallel/.*\bin _get_stream\b",
            ),
            Form(
                cause="command-missing",
                texts=(),
                regex=r"FileNotFoundError: \[Errno 2\] No such file or directory: '[^/']+'",
                source="https://docs.python.org/3/library/subprocess.html#exceptions",
                stack=r"subprocess\.py\", line \d+, in _execute_child",
                means="the program starts another one that is not installed, or not on PATH, in the job",
                next="install it in the environment of the job, or load the module that has it (`environment.modules`)",
            ),
            Form(
                cause="file-system",
                texts=("Text file busy",),
                source="https://man7.org/linux/man-pages/man2/execve.2.html#ERRORS",
                means="a program was started while another process, maybe on another node, had its file open for writing (Text file busy)",
                check="which process writes it",
                next="write it under another name and rename it when it is complete, before it is started; then submit again",
                passing=True,
            ),
            Form(
                cause="peer-lost",
                texts=("EOFError: Ran out of input",),
                source="https://github.com/open-mmlab/mmdetection/issues/5169",
                stack=r"multiprocessing/spawn\.py|multiprocessing/forkserver\.py",
                means="a process was started by another one that had ended before it could say what to do",
                next="see how the process that starts the others ended, in the lines above; what is given to them must be picklable",
                consequence=True,
            ),
            Form(
                cause="configuration",
                texts=("An attempt has been made to start a new process before the",),
                source=_SPAWN,
                means="the program starts processes while it is imported: with the start method `spawn` each of them imports it again",
                check="what the program does at its top level",
                next="put what starts the training below `if __name__ == '__main__'`",
            ),
            Form(
                cause="environment",
                texts=("UnicodeDecodeError: 'ascii' codec {1}", "UnicodeEncodeError: 'ascii' codec {1}"),
                regex=r"UnicodeEncodeError: '(latin-1)' codec",
                source="https://docs.python.org/3/using/cmdline.html#envvar-PYTHONUTF8",
                means="the locale of the job is not UTF-8, so Python reads and prints ASCII alone",
                check="`locale` in a job on a compute node",
                next="`environment.variables: {LC_ALL: C.UTF-8, PYTHONUTF8: 1}`, or name the encoding: `open(…, encoding='utf-8')`",
            ),
            Form(
                cause="configuration",
                texts=(),
                regex=r"^Error: ((?:Missing (?:option|argument|parameter)|No such (?:option|command)|Invalid value for|Got unexpected extra argument).*)",
                source="https://click.palletsprojects.com/en/stable/exceptions/",
                means="the program rejected its arguments: {1}",
                next="correct the command's arguments: `dlrun plan --script` shows them as the program gets them",
            ),
            Form(
                cause="build-mismatch",
                texts=(
                    "No module named 'numpy._core",
                    "module 'numpy' has no attribute '{1}'",
                    "was removed in the NumPy 2.0 release",
                    "was removed from the main namespace in NumPy 2.0",
                ),
                source="https://numpy.org/doc/stable/numpy_2_0_migration_guide.html",
                means="a library, or a pickled file, is for another version of NumPy (1 or 2) than is installed",
                check="`python -c 'import numpy; print(numpy.__version__)'` in the job's environment",
                next="install the NumPy that it was written for (`pip install 'numpy<2'`, or 2), or update the library",
                passing=True,
            ),
            Form(
                cause="checkpoint-mismatch",
                texts=("AttributeError: Can't get attribute '{1}' on <module",),
                source="https://docs.python.org/3/library/pickle.html#what-can-be-pickled-and-unpickled",
                means="a pickled file names `{1}`, which the program does not have at that place: it was written by another program or version",
                next="import or define it where the file says before loading, or save a `state_dict` rather than the whole object",
            ),
            Form(
                cause="socket-path",
                texts=("OSError: AF_UNIX path too long", "OSError: AF_UNIX path length cannot exceed"),
                source="https://man7.org/linux/man-pages/man7/unix.7.html",
            ),
            Form(
                cause="environment",
                texts=(
                    "Cannot load backend '{1}' which requires the '{}' interactive framework",
                    "no display name and no $DISPLAY environment variable",
                    "couldn't connect to display {1}",
                    "qt.qpa.xcb: could not connect to display",
                    "no Qt platform plugin could be initialized",
                ),
                source="https://matplotlib.org/stable/users/explain/figure/backends.html",
                means="the program opens a window, and compute nodes have no display",
                check="which library draws, in the traceback",
                next="`environment.variables: {MPLBACKEND: Agg, QT_QPA_PLATFORM: offscreen}`",
                passing=True,
            ),
            Form(
                cause="build-mismatch",
                texts=("OMP: Error #15: Initializing {1}, but found",),
                source="https://github.com/pytorch/pytorch/issues/44282",
                means="two OpenMP libraries are loaded into one process: {1} and another one",
                next="install PyTorch and NumPy from one source (all with pip, or all with conda), so that they share one OpenMP library",
            ),
            Form(
                cause="build-mismatch",
                texts=("MKL_THREADING_LAYER={} is incompatible with {1} library",),
                source="https://github.com/pytorch/pytorch/issues/37377",
                means="MKL is set to another OpenMP library than that which is loaded: {1}",
                next="`environment.variables: {MKL_THREADING_LAYER: GNU}`",
            ),
            Form(
                cause="missing-library",
                texts=("Intel MKL FATAL ERROR: Cannot load {1}.", "INTEL MKL ERROR: {1}: undefined symbol"),
                source="https://github.com/ContinuumIO/anaconda-issues/issues/720",
                next="install NumPy and MKL again together, and remove other MKL libraries from `LD_LIBRARY_PATH` and `environment.modules`",
            ),
            Form(
                cause="build-mismatch",
                texts=("Inconsistency detected by ld.so: {1}",),
                source="https://man7.org/linux/man-pages/man8/ld.so.8.html",
                means="the dynamic linker found a damaged library, or a C library of another system",
            ),
            Form(
                cause="environment",
                texts=(
                    "No virtual environment found; run",
                    "Poetry could not find a pyproject.toml file in {1}",
                ),
                source="https://docs.astral.sh/uv/pip/environments/",
                means="the program's environment is searched from the directory in which the job runs, and is not there",
                next="name it with `environment.venv`, or correct the spec's `directory`",
            ),
            Form(
                cause="file-locks",
                texts=("libmamba Could not set lock", "libmamba Unable to lock '{1}'"),
                source="https://github.com/mamba-org/mamba",
                means="another process holds the lock of the cache of packages",
                next="build the environment once on a login node, and name it with `environment.conda`",
                passing=True,
            ),
            Form(
                cause="missing-module",
                texts=(
                    "PackageNotFoundError: No package metadata was found for {1}",
                    "DistributionNotFound: The '{1}",
                ),
                source="https://docs.python.org/3/library/importlib.metadata.html",
            ),
            Form(
                cause="build-mismatch",
                texts=("RuntimeError: Numpy is not available",),
                source="https://github.com/pytorch/pytorch/issues/107302",
                means="PyTorch cannot use the NumPy that is installed: it was built for another version of it, or there is none",
                next="install the NumPy that this PyTorch was built for (before 2.3: `pip install 'numpy<2'`)",
            ),
        ),
    ),
)
