"""Errors about the address at which ranks expect the store of PyTorch (TCPStore), through which they find one another."""

from __future__ import annotations

from dlrun.why.known.form import Form

# ruff: noqa: E501 - a table
FORMS = (
    Form(
        cause="fabric-interface",
        texts=(),
        regex=r"trying to connect to \((172\.17\.0\.\d+), ",
        source="https://github.com/OpenRLHF/OpenRLHF/issues/265",
        means="the ranks were given the address {1}, which each node has for itself (a bridge for containers)",
        check="`hostname -i` and `ip -brief address` in the job or its container",
        next="start the container in the host's network, and give the program the address of the nodes' network (for vLLM `VLLM_HOST_IP`, for Ray `--node-ip-address`, else `fabric.interfaces` in the site profile)",
        anywhere=True,
    ),
    Form(
        cause="rendezvous",
        texts=(),
        regex=r"client socket has failed to connect\b.*network addresses of \((\S+), \d+\) cannot be retrieved",
        source="https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/socket.cpp",
        means="the node does not know the name {1}, at which the first rank is expected",
        check="`getent hosts NAME` with this name on each node of the job",
        next="let the program take MASTER_ADDR as dlrun sets it (`dlrun plan --script`); outside of dlrun give it the first node's address, or a name that all nodes know",
        anywhere=True,
    ),
)
"""In the order in which a line of the process groups is compared, among their other errors."""
