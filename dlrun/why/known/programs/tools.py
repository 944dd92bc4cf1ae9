"""Errors of command-line tools that run beside a training, or start it: curl, wget, tar, unzip, numactl, Dask."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="tools",
        source="https://curl.se/libcurl/c/libcurl-errors.html",
        forms=(
            Form(
                cause="no-network",
                texts=("wget: unable to resolve host address {1}",),
                source="https://curl.se/libcurl/c/libcurl-errors.html",
                passing=True,
            ),
            Form(
                cause="walltime",
                texts=("The user-provided time limit for job execution has been reached",),
                source="https://github.com/open-mpi/ompi/blob/v4.1.x/orte/tools/orterun/help-orterun.txt",
                means="a time limit of mpirun itself was reached (`--timeout`, MPIEXEC_TIMEOUT)",
                next="remove that option or variable; dlrun's `resources.walltime` is the job's own limit",
            ),
            Form(
                cause="file-system",
                texts=("rsync error: some files/attrs were not transferred", "unsquashfs: write error"),
                source="https://download.samba.org/pub/rsync/rsync.1",
                means="a copy is not complete: the lines above name the files",
                consequence=True,
            ),
            Form(
                cause="not-found",
                texts=("curl: (22) The requested URL returned error: 404",),
                source="https://curl.se/libcurl/c/libcurl-errors.html",
            ),
            Form(
                cause="file-missing",
                texts=("tar: {1}: Cannot open: No such file or directory",),
                source="https://www.gnu.org/software/tar/manual/",
            ),
            Form(
                cause="file-damaged",
                texts=(
                    "tar: Unexpected EOF in archive",
                    "tar: This does not look like a tar archive",
                    "gzip: {}: unexpected end of file",
                    "gzip: {}: invalid compressed data",
                ),
                source="https://www.gnu.org/software/tar/manual/",
            ),
            Form(
                cause="file-missing",
                texts=("unzip:  cannot find or open {1},",),
                source="https://infozip.sourceforge.net/",
            ),
            Form(
                cause="configuration",
                texts=(
                    "setting membind: {1}",
                    "setting interleave mask: {1}",
                    "set_mempolicy: {1}",
                    "libnuma: Error: {1}",
                    "sched_setaffinity: Invalid argument",
                ),
                regex=r"^(?:numactl: )?<?[\d,-]+>? (?:is out of range|is invalid)$|mbind: (?:Invalid argument|Operation not permitted)|^(?:cpu|node) argument \S+ is out of range$",
                source="https://github.com/numactl/numactl/issues/223",
                means="`numactl`, or a library that binds memory, asks for memory or cores that the job was not granted, or the container forbids it",
                check="`grep -E '(Cpus|Mems)_allowed_list' /proc/self/status` and `numactl --show` in a job",
                next="take `numactl` out of the command: dlrun binds the ranks (`placement`); in a container it also needs the capability CAP_SYS_NICE",
                passing=True,
            ),
            Form(
                cause="configuration",
                texts=(),
                regex=r"^((?:mismatched|extraneous) input '.*|no viable alternative at input '.*|missing \S+ at '.*|token recognition error at: .*)$",
                source="https://hydra.cc/docs/advanced/override_grammar/basic/",
                means="an override on the command line is not of Hydra's grammar: {1}",
                next="quote values with `=`, commas, brackets or spaces, once for Hydra and once for the shell: `'key=\"a=b\"'`",
                passing=True,
            ),
            Form(
                cause="permission",
                texts=("==ERROR== ERR_NVGPUCTRPERM",),
                source="https://developer.nvidia.com/ERR_NVGPUCTRPERM",
                means="the profiler may not read the GPU's performance counters on this node",
                check="`grep RmProfilingAdminOnly /proc/driver/nvidia/params` on the node: 1 forbids it",
                next="ask the centre: some have a scheduler option or a partition that allows it; otherwise run without `ncu` (a timeline of `nsys` needs no counters)",
                passing=True,
            ),
            Form(
                cause="peer-lost",
                texts=(),
                regex=r"\b(?:CommClosedError|StreamClosedError)\b",
                source="https://github.com/dask/distributed/issues/3129",
                means="a process of Dask lost the connection to another one: to its scheduler, or to a worker",
                next="find which one ended first, and why: `dlrun logs JOB --rank all`; often memory ran out there, or its job's time",
                consequence=True,
            ),
            Form(
                cause="killed",
                texts=("distributed.scheduler.KilledWorker: {1}",),
                source="https://distributed.dask.org/en/stable/killed.html",
                means="several processes of Dask ended while they ran one task: often memory ran out",
                consequence=True,
            ),
        ),
    ),
)
