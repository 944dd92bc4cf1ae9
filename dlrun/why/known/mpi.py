"""Errors of Open MPI."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

_OMPI = "https://github.com/open-mpi/ompi/blob/main/"
_PRRTE = "https://github.com/openpmix/prrte/blob/master/"

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="Open MPI",
        source="https://github.com/open-mpi/ompi",
        forms=(
            Form(
                cause="launcher",
                texts=(
                    "Open MPI tried to bind a new process, but something went wrong",
                    'hwloc_set_cpubind returned "Error"',
                ),
                source="https://github.com/open-mpi/ompi-release/issues/223",
                means="MPI could not bind a rank to cores: the job was granted fewer, or others, than it asks for",
                check="`taskset -pc $$` in a job, and `dlrun plan`, which shows the cores of each rank",
                next="leave the binding to dlrun: `environment.variables: {OMPI_MCA_hwloc_base_binding_policy: none, PRTE_MCA_hwloc_default_binding_policy: none}`, and no `--bind-to` or `--map-by` in `arguments` under `launcher`",
            ),
            Form(
                cause="mpi-daemon",
                texts=(
                    "orted: command not found",
                    "prted: command not found",
                    "orted: No such file or directory",
                    "prted: No such file or directory",
                ),
                source="https://github.com/open-mpi/ompi/blob/v4.1.x/orte/mca/plm/base/help-plm-base.txt",
                means="Open MPI is not on the PATH of the other nodes, which it reaches by ssh",
                next="start the ranks with the scheduler's launcher (`launcher: srun`), give mpirun `--prefix`, or load the module in the shell's start-up file",
            ),
            Form(
                cause="collective-mismatch",
                texts=(
                    "MPI_ERR_TRUNCATE: message truncated",
                    "Message truncated, error stack",
                    "message truncated; {} bytes received",
                ),
                source="https://www.mpi-forum.org/docs/",
            ),
            Form(
                cause="fabric-provider",
                texts=(
                    "selected pml {1}, but peer",
                    "MPI_INIT has failed because at least one MPI process is unreachable",
                    "could not find endpoint with port: {1}",
                ),
                source="https://github.com/open-mpi/ompi/issues/12475",
                means="the nodes chose different network transports of Open MPI: their adapters or their installations differ",
                next="compare `ompi_info` and `ibstat` of the nodes that the line names; set one transport: `environment.variables: {OMPI_MCA_pml: ucx}`",
            ),
            Form(
                cause="launcher",
                texts=("mpirun does not support recursive calls", "{} does not support recursive calls"),
                source="https://github.com/open-mpi/ompi/blob/v4.1.x/orte/tools/orterun/help-orterun.txt",
                means="the command starts `mpirun` inside of a process that `mpirun` has started",
                next="take `mpirun` out of the command: dlrun starts the ranks (`launcher` in the site profile)",
            ),
            Form(
                cause="fabric",
                texts=("Failed to resolve UCX endpoint for rank {1}",),
                source="https://github.com/openucx/ucx/issues/10451",
                consequence=True,
            ),
            Form(
                cause="library-setting",
                texts=("Read -1, expected {}, errno = {1}",),
                source="https://github.com/open-mpi/ompi/issues/4948",
                means="a rank may not read another one's memory on the same node, as Open MPI does for long messages",
                next="`environment.variables: {OMPI_MCA_btl_vader_single_copy_mechanism: none}`, or let each rank see all GPUs of its node",
                passing=True,
            ),
            Form(
                cause="library-setting",
                texts=("Error in hcoll init", "component {1} is not available but requested in hierarchy"),
                source="https://docs.nvidia.com/networking/display/hpcxv217/hcoll",
                next="switch HCOLL off: `environment.variables: {OMPI_MCA_coll_hcoll_enable: 0}`",
                passing=True,
            ),
            Form(
                cause="launcher",
                texts=('usable "srun" command in its path', 'parameter "plm_rsh_agent" was set to a path'),
                source="https://github.com/open-mpi/ompi/blob/v4.1.x/orte/mca/plm/slurm/help-plm-slurm.txt",
                means="mpirun does not find the program by which it starts the other nodes (`srun`, `ssh`), as inside a container",
                next="start the ranks with the scheduler's launcher (`launcher: srun`), without `mpirun` in the container",
            ),
            Form(
                cause="mpi-root",
                texts=(
                    "has detected an attempt to run as root",
                    "mpirun as root is strongly discouraged",
                    "prterun has detected an attempt to run as root",
                ),
                source=_PRRTE + "src/mca/schizo/prte/help-prun.txt",
            ),
            Form(
                cause="mpi-slots",
                texts=(
                    "Your job failed to map",
                    "Either no mapper was available",
                    "not enough resources to map",
                    "There are no allocated resources for the application",
                    "There are not enough slots available",
                    "More processes requested than permitted",
                    "Your job has requested more processes than the ppr for",
                    "All nodes which are allocated for this job are already filled",
                ),
                source=_PRRTE + "src/mca/rmaps/base/help-prte-rmaps-base.txt",
            ),
            Form(
                cause="mpi-slots",
                texts=(
                    "A request was made to bind to that would result in binding more",
                    "processes than cpus on a resource",
                ),
                source=_PRRTE + "src/mca/rmaps/base/help-prte-rmaps-base.txt",
                means="MPI was asked to bind more ranks than the node has granted cores",
                next="let dlrun bind the ranks, without `--bind-to` in `arguments` of the site profile's `launcher`; compare `resources.ranks_per_node` with `dlrun plan`",
            ),
            Form(
                cause="mpi-daemon",
                texts=(
                    "ORTE was unable to reliably start one or more daemons",
                    "PRTE was unable to reliably start one or more daemons",
                    "was unable to reliably start one or more daemons",
                    "was unable to complete a TCP connection",
                    "ORTE: UNABLE TO SEND MESSAGE TO {1}",
                    "No OOB path to target",
                    "An ORTE daemon has unexpectedly failed after launch",
                    "A PRTE daemon has unexpectedly failed after launch",
                    "ORTE does not know how to route a message to the specified daemon",
                    "A daemon (pid {}) died unexpectedly",
                    "A daemon died unexpectedly with status",
                    "daemon has unexpectedly failed after launch and before",
                ),
                source=_PRRTE + "src/mca/errmgr/base/help-errmgr-base.txt",
            ),
            Form(
                cause="mpi-daemon",
                texts=(
                    "An internal error has occurred in ORTE",
                    "ORTE has lost communication with a remote daemon",
                    "has lost communication with a remote daemon",
                    "lost connection to remote daemon",
                ),
                source=_PRRTE + "src/mca/errmgr/base/help-errmgr-base.txt",
                consequence=True,
            ),
            Form(
                cause="command-missing",
                texts=(
                    "was unable to find the specified executable file",
                    "was unable to launch the specified application",
                ),
                source=_PRRTE + "src/mca/schizo/prte/help-prun.txt",
                means="the program that MPI was to start does not exist on a node",
                passing=True,
            ),
            Form(
                cause="launcher",
                texts=(
                    "mpirun was unable to start the specified application",
                    "detected an unknown option",
                    "unrecognized option",
                    "The following command line options were deprecated",
                    'Open MPI tried to fork a new process via the "execve" system call but failed',
                ),
                regex=r"(?:srun|mpirun|mpiexec\S*|prterun): (?:error: )?((?:unrecognized option|unknown option|invalid option|[Uu]nrecognized argument|Invalid \S+ specification|Unable to create step(?!.*Job/step already)|fatal: ).*)|(?:prte|prterun|mpirun|mpiexec)\S* (?:was unable to (?:find|launch)|detected an unknown option).*",
                source=_PRRTE + "src/mca/schizo/prte/help-prun.txt",
                passing=True,
            ),
            Form(
                cause="fabric-interface",
                texts=(
                    "None of the TCP networks specified to be included for out-of-band communications",
                    "could not be found:  Value: {1}",
                ),
                source=_OMPI + "opal/mca/btl/tcp/help-mpi-btl-tcp.txt",
            ),
            Form(
                cause="locked-memory",
                texts=(
                    "The OpenFabrics (openib) BTL failed to initialize while trying to allocate some locked memory",
                    "allocate some locked memory",
                    "unable to register memory: Cannot allocate memory",
                ),
                source="https://github.com/open-mpi/ompi/blob/v4.1.x/opal/mca/btl/openib/help-mpi-btl-openib.txt",
            ),
            Form(
                cause="fabric-provider",
                texts=(
                    "No components were able to be opened in the",
                    "Open MPI failed an OFI Libfabric library call",
                    "PML {1} cannot be selected",
                    "At least one pair of MPI processes are unable to reach each other for",
                    "mca_pml_base_select",
                    "mca_bml_base_btl_array_get_next: invalid array size",
                    "The requested component {1} was not found",
                ),
                source=_OMPI + "ompi/mca/bml/r2/help-mca-bml-r2.txt",
            ),
            Form(
                cause="fabric",
                texts=(
                    "The InfiniBand retry count between two MPI processes has been exceeded",
                    "PML add procs failed",
                    "OpenFabrics device: {} failed",
                    "error polling LP CQ with status RETRY EXCEEDED ERROR",
                ),
                source=_OMPI + "opal/mca/btl/",
            ),
            Form(
                cause="disk-full",
                texts=(
                    "your temporary directory or shared memory directory does not have enough space",
                    "It appears as if there is not enough space for",
                ),
                source=_OMPI + "opal/mca/shmem/mmap/help-opal-shmem-mmap.txt",
                means="the node's temporary directory or shared memory is full",
                next="point `TMPDIR` to node-local storage with room, or use fewer loader processes; `df -h` on the node shows which",
            ),
            Form(
                cause="mpi-init",
                texts=(
                    "It looks like MPI_INIT failed for some reason",
                    "It looks like MPI runtime init failed for some reason",
                    "It looks like opal_init failed for some reason",
                    "It looks like orte_init failed for some reason",
                    "It looks like prte_init failed for some reason",
                    "*** An error occurred in MPI_Init",
                    "orte_ess_init failed",
                    "But I couldn't open the help file",
                    "ompi_mpi_init: ompi_rte_init failed",
                ),
                source=_OMPI + "ompi/runtime/help-mpi-runtime.txt",
                consequence=True,
            ),
            Form(
                cause="peer-lost",
                texts=(
                    "mca_btl_tcp_frag_recv: readv failed: Connection reset by peer",
                    "mca_btl_tcp_recv_blocking] recv({}) failed",
                    "An MPI communication peer process has unexpectedly disconnected",
                    "btl_tcp_endpoint.c:{} connect() to {} failed",
                    "MPI_ERR_PROC_FAILED",
                    "*** An error occurred in MPI_",
                ),
                source=_OMPI + "opal/mca/btl/tcp/help-mpi-btl-tcp.txt",
                consequence=True,
            ),
            Form(
                cause="killed",
                texts=("exited on signal 9 (Killed)",),
                source=_PRRTE + "src/mca/schizo/prte/help-prun.txt",
                consequence=True,
            ),
            Form(
                cause="segmentation-fault",
                texts=("exited on signal 11 (Segmentation fault)", "Signal: Segmentation fault (11)"),
                source=_OMPI + "opal/util/stacktrace.c",
                consequence=True,
            ),
            Form(
                cause="bus-error",
                texts=("exited on signal 7 (Bus error)", "Signal: Bus error (7)"),
                source=_OMPI + "opal/util/stacktrace.c",
                consequence=True,
            ),
            Form(
                cause="abort",
                texts=("exited on signal 6 (Aborted)", "Signal: Aborted (6)"),
                source=_PRRTE + "src/mca/schizo/prte/help-prun.txt",
                consequence=True,
            ),
            Form(
                cause="mpi-abort",
                texts=(
                    "MPI_ABORT was invoked on rank {1}",
                    "MPI_Abort was called on rank {1}",
                    "MPI_ABORT was invoked",
                ),
                source=_OMPI + "ompi/mpi/help-mpi-api.txt",
                consequence=True,
            ),
            Form(
                cause="mpi-ended",
                texts=(
                    "Primary job  terminated normally, but 1 process returned",
                    "noticed that the job aborted, but has no info as to the process",
                    "detected that one or more processes exited with non-zero status",
                    "noticed that process rank {} with PID",
                    "Child job {} terminated normally, but",
                    "exiting improperly",
                ),
                source=_PRRTE + "src/mca/schizo/prte/help-prun.txt",
                means="a rank ended with an error, and the launcher ended the others",
                consequence=True,
            ),
            Form(
                cause="mpi-ended",
                texts=(
                    "One of MPI processes was aborted.(rank={1})",
                    "caused collective abort of all ranks",
                    "Local abort before MPI_INIT completed",
                ),
                source="https://github.com/yoshiconlab-technical-assistant/analyse-csh/issues/19",
                consequence=True,
            ),
            Form(
                cause="mpi-init",
                texts=(),
                regex=r"(?:PMIX|OPAL) ERROR: (.*\bgds_\w+\.c .*)",
                source="https://github.com/open-mpi/ompi/issues/7516",
                next="`environment.variables: {PMIX_MCA_gds: hash}`, and a `TMPDIR` on the node's own disk that the job may write",
                consequence=True,
            ),
            Form(
                cause="library-version",
                texts=(
                    "ORTE_ERROR_LOG: Data unpack would read past end of buffer in file {}grpcomm_direct.c",
                    "ORTE_ERROR_LOG: Data unpack had inadequate space in file {}grpcomm_direct.c",
                ),
                source="https://github.com/open-mpi/ompi/issues/4437",
                means="the nodes' daemons of Open MPI do not understand one another: they are of different versions or builds",
                check="`ssh NODE mpirun --version` for each node, without a shell's start-up file of your own",
                next="have the same Open MPI on all nodes: load its module in the shell's start-up file, give mpirun `--prefix`, or start the ranks with the scheduler's launcher (`launcher: srun`)",
            ),
            Form(
                cause="mpi-init",
                texts=(),
                regex=r"\b(?:ORTE_ERROR_LOG|PRTE_ERROR_LOG|PRTE ERROR|PMIX ERROR|OPAL ERROR|OPAL_ERROR_LOG): (.+)",
                source="https://github.com/open-mpi/ompi/issues/12359",
                consequence=True,
            ),
        ),
    ),
)
