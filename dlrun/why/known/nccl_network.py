"""Errors of NCCL's networks: the plugin for libfabric, InfiniBand verbs."""

from __future__ import annotations

from dlrun.why.known.form import Form

_NCCL = "https://github.com/NVIDIA/nccl/blob/master/src/"

# ruff: noqa: E501 - a table
FORMS = (
    Form(
        cause="gpu-library",
        texts=("failed to open CUDA IPC handle : {1}",),
        regex=r"\bp2p\.cc:\d+ .*(?:Cuda|HIP) failure (?:\d+ )?'(invalid (?:argument|device pointer|resource handle)[^']*)'",
        source="https://github.com/NVIDIA/nccl/issues/360",
        means="GPUs of a node could not open one another's memory (P2P, IPC): {1}",
        check="whether all ranks of the node run in one container and see the same GPUs (`CUDA_VISIBLE_DEVICES`, `ROCR_VISIBLE_DEVICES`), and `nvidia-smi topo -p2p r`",
        next="start the ranks of a node in one container with the host's IPC and PID namespaces, each with all GPUs of the job visible; `environment.variables: {NCCL_P2P_DISABLE: 1}` does without, slower",
    ),
    Form(
        cause="fabric-provider",
        texts=("Error: network {1} not found",),
        source="https://github.com/eth-cscs/cscs-docs/pull/75",
        means="NCCL finds no plugin for the network `{1}`, which `NCCL_NET` asks for",
        check="`NCCL_NET`, and whether `LD_LIBRARY_PATH` has the directory of `libnccl-net.so` (AMD: `librccl-net.so`), in the job or its container",
        next="load the module that has the plugin (`environment.modules`; for AWS Libfabric aws-ofi-nccl), mount it into the container, or unset `NCCL_NET`",
    ),
    Form(
        cause="library-version",
        texts=("NET/OFI Couldn't set {1}. RC: -92", "NET/OFI {} failed: Protocol not available"),
        source="https://github.com/aws/aws-ofi-nccl/issues/241",
        means="NCCL's plugin for libfabric was built with a newer libfabric than the job loads",
        check="`fi_info --version` in the job, and `ldd` of `libnccl-net.so`",
        next="put the libfabric that the plugin was built with first in `LD_LIBRARY_PATH` (in the image, too), or rebuild the plugin",
    ),
    Form(
        cause="fabric-provider",
        texts=(
            "NET/OFI OFI fi_getinfo() call failed",
            "No eligible providers were found",
            "Failed to initialize any NET plugin",
        ),
        source="https://github.com/aws/aws-ofi-nccl",
    ),
    Form(
        cause="fabric",
        texts=(),
        regex=r"Call to ibv_modify_qp failed with (?:error )?(?:\d+ )?((?:Network is unreachable|No route to host|Connection timed out)\b(?:.*\bremote GID \S+)?)",
        source="https://github.com/NVIDIA/nccl/issues/2013",
        means="an adapter could not be connected with that of another node: {1}",
        check="`show_gids` (or `ibv_devinfo -v`) on both nodes: whether the GID that NCCL takes is of one network, and of RoCE v2; `dlrun verify` with its spec tests each pair of nodes",
        next="on RoCE name the GID and the adapters of one network (`environment.variables: {NCCL_IB_GID_INDEX: 3, NCCL_IB_HCA: mlx5_0}`); where adapters reach only those of the same number (rails), `environment.variables: {NCCL_CROSS_NIC: 0}`; if only one node is affected, exclude it (`resources.exclude`)",
        anywhere=True,
    ),
    # NCCL continues with sockets, if it may.
    Form(
        cause="fabric",
        texts=("NET/IB{}: No device found", "Failed to open libibverbs.so"),
        source=_NCCL + "misc/ibvwrap.cc",
        passing=True,
    ),
    Form(
        cause="fabric",
        texts=(
            "Call to ibv_modify_qp failed with error {}",
            "Call to ibv_{} failed",
            "NET/IB{}: Got async event : local catastrophic",
            "Got async event : {1}",
            "Got async fatal event",
            "NET/OFI Unable to",
            "NET/OFI Couldn't open",
            "fi_{} failed",
            "NET/IB{}: Unable to open device",
        ),
        source=_NCCL + "transport/net_ib/common.cc",
    ),
    Form(
        cause="fabric",
        texts=(
            "Got completion from peer {} with status=12 ",
            "Got completion from peer {} with error 12",
            "Got completion with error 12",
            "IBV_WC_RETRY_EXC_ERR",
        ),
        source="https://github.com/NVIDIA/nccl/issues/1664",
        means="a node did not answer over InfiniBand or RoCE (status 12, IBV_WC_RETRY_EXC_ERR): a rank there had ended, or a link or switch between the nodes failed",
        check="the logs of the other ranks (`dlrun logs JOB --rank all`), then `dlrun verify` with its spec, which tests each pair of nodes; `ibstat` and `rdma statistic` on both",
        next="exclude the node that it names (`resources.exclude`) and submit again; on RoCE compare `NCCL_IB_GID_INDEX`, `NCCL_IB_TC` and `NCCL_IB_HCA` with the centre's; if links only flap, `environment.variables: {NCCL_IB_TIMEOUT: 22}`",
        consequence=True,
    ),
    Form(
        cause="fabric",
        texts=(
            "Got completion from peer {} with status=",
            "Got completion from peer {} with error",
            "NET/OFI Request {} completed with error",
            "got completion {} with error",
            "Got completion with error {1}",
            "got completion with status {1}",
        ),
        source=_NCCL + "transport/net_ib/common.cc",
        consequence=True,
    ),
)
"""In the order in which a line of NCCL is compared, among its other errors."""
