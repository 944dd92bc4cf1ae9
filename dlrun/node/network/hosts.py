"""The nodes of a job and their addresses, from the host list."""

import socket
from typing import List, Tuple

from ..common.errors import NodeError, Usage

Address = Tuple[int, str]  # address family, numeric address


def read(path: str) -> List[str]:
    """The hosts of a file, one per line, without empty lines and `#` comments; Usage if one is listed twice."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.partition("#")[0].strip() for line in file]
    except OSError as fault:
        raise Usage("the host list `{}` cannot be read: {}".format(path, fault.strerror)) from None
    names = [line for line in lines if line]
    if len(set(names)) != len(names):
        raise Usage(
            "the host list `{}` names a host twice".format(path),
            "write one line per node: a node runs one node program",
        )
    return names


def address(host: str) -> Address:
    """A host's address family and numeric address, IPv4 preferred; NodeError if the name does not resolve."""
    try:
        entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as fault:
        raise NodeError(
            "cannot resolve the host `{}`: {}".format(host, fault),
            "the host list must have names that resolve on every node",
        ) from None
    family, _, _, _, where = min(entries, key=lambda entry: entry[0] != socket.AF_INET)
    return int(family), str(where[0])


def listen(where: Address, port: int) -> socket.socket:
    """A non-blocking listening socket; NodeError if the port is in use or the address is not this node's."""
    listener = socket.socket(where[0], socket.SOCK_STREAM)
    # Connections of an earlier run on this port may still be in TIME_WAIT.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((where[1], port))
    except OSError as fault:
        listener.close()
        raise NodeError(
            "cannot listen on {} port {}: {}".format(where[1], port, fault.strerror),
            "give another --port, or this node's own address with --bind",
        ) from None
    # A long queue: a port scan may open hundreds of connections, and must not keep out the other nodes.
    listener.listen(1024)
    listener.setblocking(False)
    return listener
