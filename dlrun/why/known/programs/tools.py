"""Errors of command-line tools and of other languages that run beside a training: curl, wget, tar, unzip, R, Julia, Fortran, Dask."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

_FORTRAN = "https://www.intel.com/content/www/us/en/docs/fortran-compiler/developer-guide-reference/2024-0/list-of-run-time-error-messages.html"

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="tools and other languages",
        source="https://curl.se/libcurl/c/libcurl-errors.html",
        forms=(
            Form(
                cause="no-network",
                texts=(
                    "wget: unable to resolve host address {1}",
                    "curl: (28) Failed to connect to {1} port",
                    "curl: (7) Failed to connect to {1} port",
                ),
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
                cause="memory",
                texts=("Error: cannot allocate vector of size {1}",),
                source="https://stat.ethz.ch/R-manual/R-devel/library/base/html/Memory-limits.html",
            ),
            Form(
                cause="gpu-memory",
                texts=("Out of GPU memory trying to allocate {1}",),
                source="https://cuda.juliagpu.org/stable/usage/memory/",
            ),
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
