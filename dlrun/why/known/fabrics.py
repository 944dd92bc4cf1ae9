"""Errors of the libraries below those of communication: UCX, libfabric with PSM and CXI, verbs."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="NVSHMEM",
        source="https://github.com/NVIDIA/nvshmem",
        line=r"(?i:\bnvshmem\w*[:/]|\bnvshmem (?:initialization|detect|setup|API)|_nvshmem/)",
        forms=(
            Form(
                cause="peer-lost",
                texts=(
                    "failed : Broken pipe",
                    "failed : Connection reset by peer",
                    "allgather of ipc handles failed",
                ),
                source="https://github.com/deepseek-ai/DeepEP/issues/223",
                consequence=True,
            ),
            Form(
                cause="fabric-provider",
                texts=(
                    "init failed for transport: {1}",
                    "Unable to initialize any transports",
                    "nvshmem detect topo failed",
                ),
                source="https://github.com/deepseek-ai/DeepEP/issues/55",
                means="NVSHMEM can use no adapter for its transport (IBGDA needs a driver that allows it, and its devices in the container)",
            ),
            Form(
                cause="fabric",
                texts=("Unable to create ah.", "create DCT share err", "connect EPS failed"),
                regex=r"non-zero status: \d+ (.+)",
                source="https://github.com/NVIDIA/nvshmem/issues/33",
            ),
            Form(
                cause="communication",
                texts=(
                    "nvshmem initialization failed",
                    "API called before NVSHMEM initialization has completed",
                ),
                source="https://github.com/sgl-project/sglang/issues/7888",
                consequence=True,
            ),
        ),
    ),
    Writer(
        name="UCX",
        source="https://github.com/openucx/ucx",
        line=r"\bUCX\s+(?:ERROR|FATAL|WARN|DIAG|INFO)|\bucp_|\buct_|pml_ucx|\bib_mlx5\w*\.c:\d+|\bud_(?:ep|iface)\.c:\d+",
        forms=(
            Form(
                cause="fabric",
                texts=(
                    "Remote operation error on {1}",
                    "Local length error on {1}",
                    "Local QP operation error on {1}",
                    "Work request flushed",
                    "Remote invalid request error",
                ),
                source="https://github.com/openucx/ucx/issues/10755",
                anywhere=True,
            ),
            Form(
                cause="library-setting",
                texts=("Invalid gid[{1}] on", "invalid value for {1}:", "Invalid value for UCX_{1}"),
                source="https://github.com/openucx/ucx/issues/4966",
                next="correct `UCX_IB_GID_INDEX` and `UCX_NET_DEVICES` (`show_gids` lists them), or remove them from `environment.variables`",
            ),
            Form(
                cause="locked-memory",
                texts=(
                    "ibv_reg_mr({}) failed: Cannot allocate memory",
                    "ibv_create_qp({}) failed: Cannot allocate memory",
                    "ibv_create_cq({}) failed: Cannot allocate memory",
                    "Please set max locked memory (ulimit -l) to 'unlimited'",
                    "failed to register address {} : Cannot allocate memory",
                    "ibv_exp_reg_mr({}) failed: Cannot allocate memory",
                ),
                source="https://github.com/openucx/ucx/blob/master/src/uct/ib/base/ib_md.c",
                anywhere=True,
            ),
            Form(
                cause="shared-memory",
                texts=(
                    "failed to allocate {} in shared memory",
                    "No space left on device",
                    "shm_open({}) failed",
                ),
                source="https://github.com/openucx/ucx/blob/master/src/uct/sm/mm/posix/mm_posix.c",
            ),
            Form(
                cause="fabric-interface",
                texts=(
                    "network device '{1}' is not available",
                    "network devices '{1}' are not available",
                    "network device {1} is not available",
                    "failed to get interface address of {1}",
                ),
                source="https://github.com/openucx/ucx/blob/master/src/ucp/core/ucp_context.c",
                anywhere=True,
            ),
            Form(
                cause="fabric-provider",
                texts=(
                    "transport '{}' is not available",
                    "no usable transports/devices",
                    "no transports/devices",
                ),
                source="https://github.com/openucx/ucx/blob/master/src/ucp/core/ucp_context.c",
                anywhere=True,
            ),
            Form(
                cause="peer-lost",
                texts=(
                    "Transport retry count exceeded",
                    "Connection reset by remote peer",
                    "Endpoint timeout",
                    "unhandled timeout error",
                    "Destination is unreachable",
                    "error handling callback was invoked",
                ),
                source="https://github.com/openucx/ucx/blob/master/src/uct/ib/mlx5/ib_mlx5_log.c",
                means="a connection of the fabric to another node broke off: that rank ended, or the link between them failed",
                next="see whether another rank ended first (`dlrun logs JOB --rank all`); if not, exclude the node (`resources.exclude`) and report it",
                consequence=True,
                anywhere=True,
            ),
            Form(
                cause="fabric",
                texts=(
                    "ibv_{} failed",
                    "no active messages transport to",
                    "no remote memory access transport to",
                    "Unsupported operation",
                    "Local protection",
                    "Remote access error",
                    "Local QP operation",
                    "UCX  ERROR",
                ),
                regex=r"UCX\s+(?:ERROR|FATAL)",
                source="https://github.com/openucx/ucx",
            ),
        ),
    ),
    Writer(
        name="libfabric",
        source="https://github.com/ofiwg/libfabric",
        line=r"\blibfabric:\d+|\bfi_getinfo\b|OFI (?:fi_)?getinfo|\bofi_init\.|\bCXI[_ ]|cxip?_|\bfi_\w+\(?\)? failed|psm[23]_|\bPSM[23]|hfi1?_|\bOPX\b|\bfi_cq_\w+|BTL OFI",
        forms=(
            Form(
                cause="fabric",
                texts=("hfi_wait_for_device: The {1} device failed to appear",),
                source="https://github.com/cornelisnetworks/opa-psm2",
            ),
            Form(
                cause="shared-memory",
                texts=(
                    "PSM could not set up shared memory segment",
                    "opening remote shared memory object in shm_open",
                    "PSM2 could not set up shared memory segment",
                ),
                source="https://github.com/cornelisnetworks/opa-psm2/issues/42",
                means="the ranks of a node could not share memory (/dev/shm) for messages: it is full, or has files of a killed job",
                next="exclude the node that it names (`resources.exclude`) and report it to the centre: /dev/shm has files that a killed job left",
                anywhere=True,
            ),
            Form(
                cause="fabric-provider",
                texts=(
                    "OFI fi_getinfo() failed",
                    "OFI getinfo() failed",
                    "fi_getinfo() failed",
                    "OFI addrinfo() failed",
                    "fi_getinfo: No data available",
                    "fi_getinfo failed",
                    "OFI get address vector map failed",
                    "no provider found",
                    "PSM2 can't open /dev/hfi1",
                    "PSM2 no hfi units are active",
                    "PSM3 can't open",
                    "hfi_userinit: assign_context command failed",
                ),
                source="https://github.com/pmodels/mpich/blob/main/src/mpid/ch4/netmod/ofi/ofi_init.c",
                anywhere=True,
            ),
            Form(cause="too-many-files", texts=("Too many open files",)),
            Form(
                cause="fabric",
                texts=(
                    "LE resources not recovered during flow control",
                    "CXI_MAP_IOVA",
                    "PTL_",
                    "fi_domain: Function not implemented",
                    "OFI domain creation failed",
                    "OFI endpoint open failed",
                    "OFI poll failed",
                    "OFI Event queue",
                    "PSM2 Endpoint",
                    "Endpoint could not be reached",
                    "ep_connect",
                    "Request Canceled, Source NIC",
                    "ENTRY_NOT_FOUND",
                    "UNDELIVERABLE",
                    "fi_endpoint failed",
                    "Detected CXI error",
                ),
                regex=r"libfabric:\d+:.*(?:error|failed|fatal)",
                source="https://github.com/ofiwg/libfabric/tree/main/prov",
            ),
            Form(
                cause="fabric",
                texts=("fi_cq_readerr: ", "BTL OFI will now abort", "mca_btl_ofi_exit", "mca_mtl_ofi"),
                source="https://github.com/open-mpi/ompi/issues/9123",
                anywhere=True,
            ),
            Form(
                cause="fabric",
                texts=("MPICH suspects a hang due to completion queue exhaustion",),
                source="https://github.com/ofiwg/libfabric/issues/9286",
                means="the queue of the network adapter's completions is too small for the messages of this job",
                next="`environment.variables: {FI_CXI_DEFAULT_CQ_SIZE: 131072}`",
                anywhere=True,
            ),
        ),
    ),
    Writer(
        name="verbs",
        source="https://github.com/linux-rdma/rdma-core",
        line=r"\bibv_\w+|\blibibverbs\b|\blibmlx5\b|\bmlx[45]_\w*|\bib_uverbs|\brdma_\w+",
        forms=(
            Form(
                cause="fabric",
                texts=("Failed to modify UD QP to INIT on {1}:", "failed to create QP, unsupported QP type"),
                source="https://github.com/openucx/ucx/blob/master/src/uct/ib/ud/base/ud_iface.c",
                anywhere=True,
            ),
            Form(
                cause="locked-memory",
                texts=(
                    "RLIMIT_MEMLOCK is {} bytes",
                    "failed to register memory region: Cannot allocate memory",
                    "ibv_reg_mr failed: Cannot allocate memory",
                    "This will severely limit memory registrations",
                ),
                regex=r"ibv_(?:reg|create)_\w+.*(?:Cannot allocate memory|ENOMEM)",
                source="https://github.com/linux-rdma/rdma-core/blob/master/libibverbs/init.c",
                anywhere=True,
            ),
            Form(
                cause="fabric",
                texts=(
                    "ibv_{} failed",
                    "failed to modify QP",
                    "ibv_open_device",
                    "got completion with error",
                    "local catastrophic error",
                    "mlx5: {}: got completion with error",
                ),
                regex=r"ibv_\w+.*(?:failed|error|[Uu]nreachable|timed out)",
                source="https://github.com/linux-rdma/rdma-core",
            ),
        ),
    ),
)
