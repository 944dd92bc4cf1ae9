"""Errors of MPI's and UCX's start that have a cause of their own: the GPUs of Cray MPICH, memory that ranks of a node share."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="UCX between ranks of a node",
        source="https://github.com/openucx/ucx/blob/master/src/uct/sm/",
        # Its other errors are of UCX in general.
        line=r"^(?!.*(?:No space left|[Ff]ailed to allocate|shmget|shm_open|Not enough memory)).*(?:\bmm_\w+\.c:\d+ +UCX\b.*(?:failed to connect to remote FIFO id|Shared memory error|\bopen\(file_name=.* failed:|\b(?:shmat|mmap)\(.*\) failed)|\bucp_ep_create\(.*Shared memory error)",
        forms=(
            Form(
                cause="fabric",
                texts=(
                    "failed to connect to remote FIFO id",
                    "Shared memory error",
                    "open(file_name={1} flags={}) failed:",
                    "shmat({}) failed",
                    "mmap({}) failed",
                ),
                source="https://github.com/openucx/ucx/blob/master/src/uct/sm/mm/posix/mm_posix.c",
                means="the ranks of a node cannot map one another's memory: each is in a container or a namespace of its own, or one of them has ended",
                check="whether another rank of the node ended first (`dlrun logs JOB --rank all`), and whether each rank starts its own container",
                next="`environment.variables: {UCX_POSIX_USE_PROC_LINK: n}`, or one container for all ranks of a node (of its processes and of /dev/shm)",
                consequence=True,
            ),
        ),
    ),
    Writer(
        name="MVAPICH",
        source="https://mvapich.cse.ohio-state.edu/userguide/",
        line=r"^\W{0,40}(?:\[\S{1,80}\]:? ?)?(?:rdma_\w+|MPIDI_CH3I_(?:RDMA|CM|MRAIL)_\w+|MRAILI_\w+)\(\d+\)\.*: ",
        forms=(
            Form(
                cause="fabric",
                texts=(),
                regex=r"^\W{0,40}(?:\[\S{1,80}\]:? ?)?(?:rdma_\w+|MPIDI_CH3I_(?:RDMA|CM|MRAIL)_\w+|MRAILI_\w+)\(\d+\)\.*: ((?!channel initialization|\s*$)\S.*)",
                source="https://mvapich.cse.ohio-state.edu/userguide/",
                means="MVAPICH could not use the node's adapter: {1}",
                check="`ibstat` and `ulimit -l` on the node",
                next="have `ulimit -l` unlimited in jobs; if only one node is affected, exclude it (`resources.exclude`) and report it to the centre",
            ),
        ),
    ),
    Writer(
        name="MPI's start on GPUs and adapters",
        source="https://cpe.ext.hpe.com/docs/latest/mpt/mpich/intro_mpi.html",
        forms=(
            Form(
                cause="build-mismatch",
                texts=("GPU_SUPPORT_ENABLED is requested, but GTL library is not linked",),
                means="Cray MPICH is to send memory of GPUs (MPICH_GPU_SUPPORT_ENABLED=1), and the program is not linked with its library for them (GTL)",
                check="`ldd PROGRAM | grep gtl`; for Python the same of `mpi4py`'s `.so`",
                next='build it with the module of the GPUs loaded (`craype-accel-nvidia80`, `craype-accel-amd-gfx90a`), or set `environment.variables: {MPICH_GPU_SUPPORT_ENABLED: 0}` if MPI does not send from GPUs; mpi4py: `MPICC="cc -shared" pip install --force-reinstall --no-cache-dir --no-binary=mpi4py mpi4py` with that module',
            ),
            Form(
                cause="shared-memory",
                texts=("A system call failed during shared memory initialization",),
                source="https://github.com/open-mpi/ompi/blob/v4.1.x/opal/mca/shmem/mmap/help-opal-shmem-mmap.txt",
                means="Open MPI could not make its file in shared memory: `/dev/shm` is full, or has files of another user's job by the same name",
                next="have `/dev/shm` cleared on that node (report it to the centre), or exclude it (`resources.exclude`)",
                passing=True,
            ),
            Form(
                cause="mpi-slots",
                texts=(
                    "Not found in file base/plm_base_launch_support.c",
                    "Not found in file {}rmaps_{1}.c",
                    "Not found in file base/ras_base_node.c",
                ),
                source="https://github.com/open-mpi/ompi/issues/714",
                means="the hosts that mpirun was given are not those of the job, or not in their order",
                check="the hostfile, and the job's own list (`scontrol show hostnames`, `cat $PBS_NODEFILE`)",
                next="give mpirun no hostfile (it asks the scheduler), or one with the job's hosts by the same names",
                consequence=True,
            ),
        ),
    ),
)
