"""Errors of the libraries that ranks communicate through: NCCL and RCCL, Gloo."""

from __future__ import annotations

from dlrun.why.known import nccl_network
from dlrun.why.known.form import Form, Writer

_NCCL = "https://github.com/NVIDIA/nccl/blob/master/src/"

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="NCCL",
        source="https://github.com/NVIDIA/nccl",
        line=r"\b(?:NCCL|RCCL) (?:WARN|INFO|TRACE|ERROR)\b|\bNET/(?:IB|OFI|Socket)\b|\bTest NCCL failure\b|RCCL\(\d+\)",
        forms=(
            Form(
                cause="fabric-manager",
                texts=(
                    "Failed to bind NVLink SHARP (NVLS) Multicast memory",
                    "is available but not working on some system. Check the IMEX channel configuration",
                    "system or configuration error in the Fabric Manager",
                ),
                source=_NCCL + "transport/nvls.cc",
                means="NVIDIA's Fabric Manager or IMEX service, which connects the GPUs, does not work on a node",
                next="exclude the node (`resources.exclude`) and report it to the centre; until then `environment.variables: {NCCL_NVLS_ENABLE: 0}` (IMEX: `NCCL_MNNVL_ENABLE`)",
            ),
            Form(
                cause="locked-memory",
                texts=("NET/OFI Unable to register memory {} Error: Cannot allocate memory",),
                source="https://github.com/NVIDIA/nccl/issues/563",
            ),
            Form(
                cause="fabric",
                texts=(
                    "NET/OFI Creating new endpoint for domain {1} failed",
                    "NET/OFI Creating new {} failed: {1}",
                    "NET/OFI Unable to {1}",
                    "NET/OFI Couldn't enable endpoint. {1}",
                ),
                source="https://github.com/aws/aws-ofi-nccl/issues/889",
            ),
            Form(
                cause="fabric-provider",
                texts=(
                    "NET/OFI Couldn't find any optimal provider",
                    "NET/OFI Only EFA provider is supported",
                    "NET/OFI OFI NCCL failure: {1}",
                    "NET/OFI No eligible providers",
                ),
                source="https://github.com/aws/aws-ofi-nccl/issues/67",
                anywhere=True,
                passing=True,
            ),
            Form(
                cause="library-setting",
                texts=(
                    "Attribute {1} of node {} not found",
                    "No attribute {1} found",
                    "Could not open XML topology file {1}",
                    "Error while parsing XML",
                ),
                source="https://github.com/aws/aws-ofi-nccl/issues/476",
                means="NCCL cannot read the node's topology file (`NCCL_TOPO_FILE`), or it is of another kind of node",
                next="remove `NCCL_TOPO_FILE` from `environment.variables`, or correct it; update the NCCL network plugin",
            ),
            Form(
                cause="gpu-memory",
                texts=(
                    "Cuda failure 'out of memory'",
                    "Cuda failure 2 'out of memory'",
                    "HIP failure 'out of memory'",
                    "Failed to CUDA calloc",
                    "Failed to CUDA malloc",
                    "failure 'out of memory'",
                ),
                source=_NCCL + "include/checks.h",
                anywhere=True,
            ),
            Form(
                cause="gpu-shared",
                texts=(
                    "Duplicate GPU detected : rank {} and rank {} both on CUDA device",
                    "Duplicate GPU detected",
                ),
                source=_NCCL + "init.cc",
                anywhere=True,
            ),
            Form(
                cause="gpu-number",
                texts=(
                    "Cuda failure 'invalid device ordinal'",
                    "Cuda failure 101 'invalid device ordinal'",
                    "failure 'invalid device ordinal'",
                ),
                source=_NCCL + "include/checks.h",
                anywhere=True,
            ),
            Form(
                cause="driver-old",
                texts=(
                    "failure 'CUDA driver version is insufficient for CUDA runtime version'",
                    "failure 'driver shutting down'",
                ),
                source=_NCCL + "include/checks.h",
                anywhere=True,
            ),
            Form(
                cause="fabric-manager",
                texts=("failure 'system not yet initialized'", "Cuda failure 802"),
                source=_NCCL + "include/checks.h",
                anywhere=True,
            ),
            Form(
                cause="device-assert",
                texts=(
                    "failure 'an illegal memory access was encountered'",
                    "failure 'unspecified launch failure'",
                    "failure 'device-side assert triggered'",
                ),
                source=_NCCL + "include/checks.h",
                anywhere=True,
            ),
            Form(
                cause="gpu-broken",
                texts=(
                    "failure 'uncorrectable ECC error encountered'",
                    "failure 'uncorrectable NVLink error detected during the execution'",
                    "Cuda failure 'unknown error'",
                ),
                source=_NCCL + "include/checks.h",
                anywhere=True,
            ),
            Form(
                cause="locked-memory",
                texts=(
                    "Call to ibv_reg_mr failed with error Cannot allocate memory",
                    "Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory",
                    "Call to ibv_create_qp failed with error Cannot allocate memory",
                    "Call to ibv_create_cq failed with error Cannot allocate memory",
                    "Call to ibv_reg_mr failed",
                    "Call to ibv_reg_dmabuf_mr failed with error Cannot allocate memory",
                ),
                source=_NCCL + "misc/ibvwrap.cc",
            ),
            Form(
                cause="fabric-interface",
                texts=(
                    "Bootstrap : no socket interface found",
                    "Bootstrap : no interface found",
                    "NET/Socket : No interface found",
                    "No interface found in the same subnet as remote address {1}",
                    "No usable listening interface found",
                ),
                source=_NCCL + "bootstrap.cc",
                anywhere=True,
            ),
            Form(
                cause="shared-memory",
                texts=(
                    "Error: failed to extend /dev/shm/nccl-{} to {} bytes",
                    "Error while creating shared memory segment {}nccl-",
                    "Error while attaching to shared memory segment /dev/shm/nccl-{}",
                    "Call to posix_fallocate failed : No space left on device",
                ),
                source=_NCCL + "misc/shmutils.cc",
                means="NCCL could not make its segment in shared memory: /dev/shm is full, or too small in the container",
                next="give the container the node's own /dev/shm (`environment.container.binds: [/dev/shm]`) or more (`--shm-size`), and remove what other jobs left there",
                anywhere=True,
            ),
            Form(
                cause="ranks",
                texts=("mismatch in rank count from procs {1}",),
                source="https://github.com/pytorch/pytorch/issues/46248",
                means="the ranks gave NCCL different numbers of ranks ({1}): they are of two starts, or some were not started",
                next="give every rank one WORLD_SIZE (`dlrun plan --script` shows the variables), and start the ranks once: no launcher inside another",
            ),
            Form(cause="too-many-files", texts=("Too many open files",), source=_NCCL + "misc/socket.cc"),
            Form(
                cause="port-in-use",
                texts=("Call to bind failed : Address already in use",),
                source=_NCCL + "misc/socket.cc",
            ),
            Form(
                cause="driver-mismatch",
                texts=("failed: Driver/library version mismatch",),
                source=_NCCL + "misc/nvmlwrap.cc",
            ),
            Form(
                cause="too-many-threads",
                texts=(
                    "Call to pthread_create failed",
                    "pthread_create failed: Resource temporarily unavailable",
                ),
                source=_NCCL + "include/checks.h",
            ),
            Form(
                cause="library-version",
                texts=(
                    "Mismatched NCCL version detected",
                    "NCCL version mismatch",
                    "bootstrap magic mismatch",
                    "failed to find {} in NET plugin",
                    "Message truncated : received {} bytes instead of",
                ),
                source=_NCCL + "bootstrap.cc",
            ),
            Form(
                cause="peer-lost",
                texts=(
                    "Connect to {} failed : No route to host",
                    "Connect to {} failed : Connection refused",
                    "Connect to {} failed : Connection timed out",
                    "Connect to {} failed : Software caused connection abort",
                    "Call to connect to {} failed : Connection refused",
                    "Call to connect failed : Connection timed out",
                ),
                source=_NCCL + "misc/socket.cc",
                means="a rank could not connect to another one: that one had ended, or its address is not reachable from this node",
                next="see which rank ended first (`dlrun logs JOB --rank all`); if all were running, correct `fabric.interfaces` in the site profile",
                consequence=True,
            ),
            Form(
                cause="peer-lost",
                texts=(
                    "returned Connection refused, exceeded retry count",
                    "returned Connection timed out, exceeded retry count",
                    "Connection closed by remote peer",
                    "Net : Call to recv from {} failed : Connection reset by peer",
                    "failed : Connection reset by peer",
                    "failed : Broken pipe",
                    "Accept timed out",
                    "[Proxy Service] Failed to execute operation",
                    "Socket recv failed while polling for opId",
                    "[Service thread] Error encountered progressing operation",
                ),
                source=_NCCL + "misc/socket.cc",
                consequence=True,
            ),
            Form(
                cause="library-setting",
                texts=(
                    "Invalid config",
                    "NCCL_{} : invalid value",
                    "Error : ring {} does not loop back to start",
                    "Could not find a NCCL tuner",
                    "Invalid NCCL_COMM_ID {1}, please use format",
                    "no algorithm/protocol available",
                ),
                source=_NCCL + "graph/tuning.cc",
            ),
            *nccl_network.FORMS,
            Form(
                cause="gpu-library",
                texts=("peer access is not supported between these two devices",),
                source="https://github.com/sgl-project/sglang/issues/1509",
                means="two GPUs of the node cannot read one another's memory (no peer access), which the program expects",
                check="`nvidia-smi topo -p2p r` on the node",
                next="`environment.variables: {NCCL_P2P_DISABLE: 1}`, set for the workers of Ray, too; vLLM and SGLang: `--disable-custom-all-reduce`; or use nodes with NVLink (`resources.constraint`)",
                anywhere=True,
            ),
            Form(
                cause="gpu-library",
                texts=("Cuda failure {} '{1}'", "Cuda failure '{1}'", "HIP failure '{1}'"),
                regex=r"HIP failure: '(.+?)'",
                source=_NCCL + "include/checks.h",
                means="a CUDA or HIP call of NCCL failed: {1}",
                next="see which rank had it first; `environment.variables: {NCCL_DEBUG: INFO}` shows what led to it",
            ),
            Form(
                cause="gpu-library",
                texts=("Cuda failure", "HIP failure", "Failed to find CUDA library"),
                source=_NCCL + "include/checks.h",
                means="a CUDA call of NCCL failed",
                next="see the words after `failure` in the line; `environment.variables: {NCCL_DEBUG: INFO}` shows what led to it",
            ),
            Form(
                cause="ranks",
                texts=("Bootstrap Root : rank {1} has already checked in",),
                source=_NCCL + "bootstrap.cc",
                means="ranks of one group were given different numbers of ranks, or two have the same number",
                next="compare RANK and WORLD_SIZE of each rank: one launcher alone starts them (`dlrun plan` shows which)",
            ),
            Form(
                cause="collective-mismatch",
                texts=("this may be caused by a collective mismatch around rank {1}.",),
                source="https://github.com/Lightning-AI/pytorch-lightning/issues/8214",
            ),
            Form(
                cause="fabric-provider",
                texts=(
                    "Could not find NET with id {}",
                    "Could not find any NET device",
                    "Failed to find a NET plugin",
                ),
                source="https://github.com/NVIDIA-NeMo/Run/issues/266",
                means="NCCL found no network device of the kind that it was set to",
            ),
            Form(
                cause="memory",
                texts=(
                    "Failed to malloc {} bytes",
                    "failed to allocate {} bytes of host memory",
                ),
                source=_NCCL + "include/alloc.h",
            ),
            Form(
                cause="communication",
                texts=("Test NCCL failure {1}",),
                regex=r"\b[NR]CCL WARN (?!.*(?:falling back|not supported|NCCL_IGNORE|will be|is deprecated|MSCCL|Could not find a path|may hang|environment|No plugin|Failed to open lib|Missing \"|NUMA auto|Could not get NUMA))(.+)",
                source=_NCCL + "include/debug.h",
                consequence=True,
            ),
        ),
    ),
    Writer(
        name="Gloo",
        source="https://github.com/pytorch/gloo",
        line=r"\bgloo/|Gloo connectFullMesh|\bgloo::",
        forms=(
            Form(
                cause="fabric-interface",
                texts=(
                    "Unable to find interface for: {1}",
                    "Unable to find address for: {1}",
                    "Unable to resolve hostname to a (local) address",
                    "ss1.ss_family == ss2.ss_family",
                ),
                source="https://github.com/pytorch/gloo/blob/main/gloo/transport/tcp/device.cc",
            ),
            Form(
                cause="fabric-interface",
                texts=(),
                regex=r"\bremote=\[(127\.\d+\.\d+\.\d+|::1)\]",
                source="https://github.com/pytorch/gloo/blob/main/gloo/transport/tcp/device.cc",
                means="a rank gave {1} as its address, which ranks on other nodes cannot reach: the name of its node leads there",
                check="`getent hosts $(hostname)` on the nodes; in a job of one node, whether the other rank has ended",
                next="name the interface between the nodes: `environment.variables: {GLOO_SOCKET_IFNAME: …}` (`ip -br address` shows them)",
            ),
            Form(
                cause="rendezvous",
                texts=(
                    "Gloo connectFullMesh failed with",
                    "Connect timeout [",
                    "connect {} No route to host",
                    "SO_ERROR: Connection refused",
                    "Wait timeout for key(s)",
                    "no error: Connection refused",
                ),
                source="https://github.com/pytorch/gloo/blob/main/gloo/transport/tcp/pair.cc",
                next="check whether a rank never started (`dlrun logs JOB --rank all`); if all did, name the interface between the nodes (`environment.variables: {GLOO_SOCKET_IFNAME: …}`): Gloo takes the one to which the node's name leads; then the site's `rendezvous` rule",
                passing=True,
                anywhere=True,
            ),
            Form(
                cause="collective-timeout",
                texts=(
                    "Timed out waiting {} for recv operation to complete",
                    "Timed out waiting {} for send operation to complete",
                    "Read timeout [",
                    "Write timeout [",
                ),
                source="https://github.com/pytorch/gloo/blob/main/gloo/transport/tcp/unbound_buffer.cc",
                consequence=True,
                anywhere=True,
            ),
            Form(
                cause="collective-mismatch",
                texts=("op.preamble.length <= op.nbytes", "enforce fail at {} Mismatched sizes"),
                source="https://github.com/pytorch/gloo/blob/main/gloo/transport/tcp/pair.cc",
            ),
            Form(
                cause="peer-lost",
                texts=(
                    "Connection closed by peer",
                    "Connection reset by peer",
                    "Broken pipe",
                    "Application timeout caused pair closure",
                    "Socket closed",
                ),
                source="https://github.com/pytorch/gloo/blob/main/gloo/transport/tcp/pair.cc",
                consequence=True,
            ),
            Form(
                cause="rendezvous",
                texts=("connectFullMesh failed",),
                source="https://github.com/pytorch/gloo/blob/main/gloo/transport/tcp/listener.cc",
            ),
            Form(cause="communication", texts=(), regex=r"(\[\S{0,200}gloo/\S+\] .+)", consequence=True),
        ),
    ),
)
