"""Errors of MPICH and Intel MPI with their launcher Hydra, and of ssh, which starts ranks."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

_ENDED = "see the end of that rank's log: `dlrun logs JOB --rank all`"

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="MPICH and Intel MPI",
        source="https://github.com/pmodels/mpich",
        forms=(
            Form(
                cause="file-locks",
                texts=(
                    "File locking failed in ADIOI_{}Set_lock",
                    "ADIOI_Set_lock:: Function not implemented",
                ),
                source="https://github.com/pmodels/mpich/blob/main/src/mpi/romio/adio/common/lock.c",
                means="MPI's files need locks, and their file system has none: NFS without a lock service, Lustre mounted without `flock`",
                next="write to another file system, or ask the centre for `flock`",
                anywhere=True,
            ),
            Form(
                cause="mpi-daemon",
                texts=(
                    "Couldn't forward RPC {} to child {1}:",
                    "ping RPC timeout from {1} after",
                    "ping failed on {1}: No reply from",
                ),
                source="https://github.com/argonne-lcf/user-guides/pull/746",
                means="a node of the job, or the launcher of HPE (PALS) on it, does not answer: {1}",
                next="exclude the node (`resources.exclude`) that stands last, which is the child that does not answer; submit again, and report it to the centre",
                passing=True,
            ),
            Form(
                cause="library-setting",
                texts=("MPICH ERROR: Unable to use a NIC_POLICY of '{1}'.",),
                source="https://docs.olcf.ornl.gov/systems/frontier_user_guide.html",
                next="bind each rank to cores of one NUMA domain (`affinity`), or give `environment.variables: {MPICH_OFI_NIC_POLICY: GPU}`",
            ),
            Form(
                cause="launcher",
                texts=("Remote JSM server is not responding on host {1}", "Error initializing RM connection"),
                source="https://docs.olcf.ornl.gov/systems/summit_user_guide.html",
            ),
            Form(
                cause="fabric-provider",
                texts=(
                    "fabric is not available and fallback fabric is not enabled",
                    "MPI startup(): cannot open dynamic library {1}",
                ),
                source="https://github.com/UCL-ARC/rcps-buildscripts/issues/50",
                next="unset `I_MPI_FABRICS` and `I_MPI_DAPL_PROVIDER`, or load the libraries of the fabric that they name",
            ),
            Form(
                cause="launcher",
                texts=(
                    "unable to run bstrap_proxy on {1} (",
                    "error setting up the bootstrap proxies",
                    "execvp error on file {}hydra_pmi_proxy",
                    "execvp error on file {}hydra_bstrap_proxy",
                ),
                source="https://github.com/Azure/az-hop/issues/906",
                means="Intel MPI or MPICH could not start its proxy on a node: ssh or the scheduler's launcher failed there, or its directory is not on that node",
                next="`ssh NODE true` must work without a prompt, or give `environment.variables: {I_MPI_HYDRA_BOOTSTRAP: slurm}`; exclude the node that it names",
            ),
            Form(
                cause="launcher",
                texts=(
                    "mpiexec_mpt must be run inside",
                    "MPT ERROR: could not run executable",
                    "could not contact array services",
                ),
                source="https://support.hpe.com/hpesc/public/docDisplay?docId=a00037728en_us",
            ),
            Form(
                cause="segmentation-fault",
                texts=(
                    "MPT ERROR: Rank {} received signal SIGSEGV",
                    "rank {} died from signal 11",
                    "terminated with signal 11",
                ),
                source="https://docs.alcf.anl.gov/running-jobs/example-job-scripts/",
                consequence=True,
            ),
            Form(
                cause="killed",
                texts=(
                    "MPT ERROR: Rank {} received signal SIGKILL",
                    "rank {} died from signal 9",
                    "terminated with signal 9",
                ),
                source="https://docs.alcf.anl.gov/running-jobs/example-job-scripts/",
                consequence=True,
            ),
            Form(
                cause="terminated",
                texts=("rank {} died from signal 15", "terminated with signal 15"),
                source="https://docs.alcf.anl.gov/running-jobs/example-job-scripts/",
                consequence=True,
            ),
            Form(
                cause="mpi-pmi",
                texts=("PMI_Allgather failed: {}",),
                source="https://github.com/BLAST-WarpX/warpx/issues/4236",
                means="MPI's ranks could not exchange their addresses by the launcher's process manager (PMI)",
                next="submit again; if it comes back, compare `--mpi=` of the launcher with the PMI that the program was built for",
            ),
            Form(
                cause="fabric-provider",
                texts=("provider is not supported",),
                regex=r"MPIDI_OFI_mpi_init_hook\(\d*\)\.*:\s*\S",
                source="https://github.com/pmodels/mpich/blob/main/src/mpid/ch4/netmod/ofi/ofi_init.c",
            ),
            Form(
                cause="launcher",
                texts=(
                    "HYDU_sock_connect ({}): unable to connect from",
                    'unable to connect from "{}" to "{}" (Connection refused)',
                    'unable to connect from "{}" to "{}" (No route to host)',
                    "HYDT_bscd_external_launch",
                    "unable to run bstrap_proxy on {1}",
                    "HYD_pmcd_pmi_wait_for_childs_completion",
                    "unable to get host address for {1}",
                    "check for firewalls!",
                    "control_cb ({}): assert (!closed) failed",
                ),
                source="https://github.com/pmodels/mpich/tree/main/src/pm/hydra",
                next="check that the nodes reach one another by these names (`ssh NODE true`, `dlrun verify`); give the interface in `fabric.interfaces` of the site profile",
            ),
            Form(
                cause="command-missing",
                texts=(
                    "HYDU_create_process ({}): execvp error on file {1} (No such file or directory)",
                    "execvp error on file {1} (No such file or directory)",
                    "execvp error on file {1} (Permission denied)",
                ),
                source="https://github.com/pmodels/mpich/blob/main/src/pm/hydra/lib/utils/launch.c",
            ),
            Form(
                cause="shared-memory",
                texts=(
                    "MPIDU_Init_shm",
                    "MPIDU_Init_shm_alloc",
                    "MPL_shm_seg_create_and_attach",
                    "unable to create shared memory",
                ),
                regex=r"(?i)unable to allocate shared memory(?!\(shm\))",  # with it PyTorch's
                source="https://github.com/pmodels/mpich/tree/main/src/mpid/common/shm",
                means="MPI could not allocate shared memory on the node (/dev/shm)",
                next="exclude the node (`resources.exclude`) and report it to the centre if /dev/shm is full of files that killed jobs left; in a container mount the node's /dev/shm",
            ),
            Form(
                cause="fabric",
                texts=(
                    "OFI Event queue",
                    "OFI call tsend",
                    "OFI tagged",
                    "MPIDI_UCX_",
                    "ucx_init",
                ),
                source="https://github.com/pmodels/mpich/tree/main/src/mpid/ch4/netmod",
            ),
            Form(
                cause="library-setting",
                texts=(
                    "Assertion failed in file {}cray_gpu_ops.c at line {}",
                    "Assertion failed in file {}cray_common_memops.c at line {}",
                    "process_vm_readv: Bad address",
                ),
                source="https://github.com/spectral-compute/scale-validation/issues/66",
                means="MPI could not use memory of a GPU that the program gave it: its support for GPUs is off, or of another kind than the GPU's library",
                check="`ldd PROGRAM | grep -i gtl`, and `env | grep -E 'MPICH_GPU|CRAY_ACCEL'` in the job",
                next="load the module of the accelerator (Cray: `craype-accel-…`) before it is built and in the job, and set `environment.variables: {MPICH_GPU_SUPPORT_ENABLED: 1}`; or copy to memory of the host before MPI is called",
            ),
            Form(
                cause="no-gpu",
                texts=("yaksuri_cuda_init_hook{}no CUDA-capable device", "MPII_init_gpu{}gpu_init failed"),
                regex=r"MPII_Init_thread\(\d+\)\.*: ?gpu_init failed|yaksuri_(?:cuda|hip|ze)_init\w*\b.*(?:no .*device|not found|failed)",
                source="https://github.com/pmodels/mpich/issues/6686",
                means="this MPI was built for GPUs, and finds none on the node",
                next="on nodes without GPUs `environment.variables: {MPIR_CVAR_ENABLE_GPU: 0}`; otherwise check `resources.gpus_per_node`",
            ),
            Form(
                cause="abort",
                texts=("Assertion failed in file {} at line {}: {1}",),
                source="https://github.com/pmodels/mpich/issues/7200",
                means="a check in MPI failed: {1}",
                next="see the calls below the line; update MPI (`environment.modules`), and report it to the centre if it recurs",
                consequence=True,
            ),
            Form(
                cause="mpi-init",
                texts=("Attempting to use an MPI routine {} MPI", "function was called before MPI_INIT"),
                source="https://github.com/pmodels/mpich/blob/main/src/binding",
                means="the program calls MPI before it is initialised, or after its end: often two MPI libraries are loaded",
                consequence=True,
            ),
            Form(
                cause="peer-lost",
                texts=(
                    "MPID_nem_tcp_connpoll",
                    "Communication error with rank {1}",
                    "connection to the process manager was lost",
                    "MPIX_ERR_PROC_FAILED",
                    "readv failed: Connection reset by peer",
                ),
                source="https://github.com/pmodels/mpich/tree/main/src/mpid",
                consequence=True,
                means="MPI lost the connection to a rank",
            ),
            Form(
                cause="killed",
                texts=(
                    "KILLED BY SIGNAL: 9 (Killed)",
                    "APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)",
                    "EXIT STRING: Killed (signal 9)",
                ),
                regex=r"EXIT CODE: (?:9|137)\b",
                source="https://github.com/pmodels/mpich/tree/main/src/pm/hydra",
                consequence=True,
            ),
            Form(
                cause="segmentation-fault",
                texts=(
                    "KILLED BY SIGNAL: 11 (Segmentation fault)",
                    "EXIT STRING: Segmentation fault (signal 11)",
                ),
                regex=r"EXIT CODE: (?:11|139)\b",
                source="https://github.com/pmodels/mpich/tree/main/src/pm/hydra",
                consequence=True,
            ),
            Form(
                cause="bus-error",
                texts=("KILLED BY SIGNAL: 7 (Bus error)", "EXIT STRING: Bus error (signal 7)"),
                source="https://github.com/pmodels/mpich/tree/main/src/pm/hydra",
                consequence=True,
            ),
            Form(
                cause="terminated",
                texts=("KILLED BY SIGNAL: 15 (Terminated)", "EXIT STRING: Terminated (signal 15)"),
                source="https://github.com/pmodels/mpich/tree/main/src/pm/hydra",
                consequence=True,
            ),
            Form(
                cause="mpi-abort",
                texts=("application called MPI_Abort({1}", "Abort({}) on node {1} (rank {} in comm"),
                source="https://github.com/pmodels/mpich/blob/main/src/mpid/ch4/src/ch4_globals.c",
                consequence=True,
            ),
            Form(
                cause="mpi-init",
                texts=(
                    "Fatal error in MPI_Init: Other MPI error, error stack",
                    "Fatal error in PMPI_Init: Other MPI error",
                    "Fatal error in MPI_Init_thread",
                    "Fatal error in internal_Init",
                    "Fatal error in PMPI_Init_thread",
                    "MPIR_Init_thread({})",
                    "MPII_Init_thread({})",
                    "channel initialization failed",
                ),
                regex=r"^(?:\[\S+\] ?)?\w*(?:[Ii]nit|setup|startup|business_card|vni_context)\w*\(\d+\)\.*: (?!MPI_Init)(\S.*)",
                source="https://github.com/pmodels/mpich/tree/main/src/mpi/init",
                consequence=True,
            ),
            Form(
                cause="mpi-ended",
                texts=(
                    "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
                    "Fatal error in PMPI_",
                    "Fatal error in MPI_",
                    "Fatal error in internal_",
                ),
                source="https://github.com/pmodels/mpich/tree/main/src/pm/hydra",
                means="a rank ended with an error, and the launcher ended the others",
                next=_ENDED,
                consequence=True,
            ),
            Form(
                cause="launcher",
                texts=(),
                regex=r"\[(?:mpiexec|proxy)\S*@\S+\] (?!Launch arguments|Possible reasons|\d+\. |Sending|got )(.+ \(.+\): .+)",
                source="https://github.com/pmodels/mpich/tree/main/src/pm/hydra",
                consequence=True,
            ),
            Form(
                cause="mpi-abort",
                texts=(),
                regex=r"MPICH ERROR \[Rank (\d+)\].* - Abort\(",
                source="https://docs.olcf.ornl.gov/systems/frontier_user_guide.html",
                consequence=True,
            ),
        ),
    ),
    Writer(
        name="ssh",
        source="https://github.com/openssh/openssh-portable",
        forms=(
            Form(
                cause="ssh-connection",
                texts=(),
                regex=r"^(?:pdsh@\S+: |\S+: )?(Connection to \S+ closed by remote host|client_loop: send disconnect.*|Timeout, server \S+ not responding|ssh: connect to host .*|(?:kex|ssh)_exchange_identification: .*|Host key verification failed|ssh: Could not resolve hostname .*|Permission denied \((?:publickey|password|keyboard-interactive|hostbased|gssapi)\S*)|(?:^|: )(\S+: Permission denied \((?:publickey|password|keyboard-interactive|hostbased|gssapi)\S*)|(@ +WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!)",
                passing=True,
            ),
        ),
    ),
)
