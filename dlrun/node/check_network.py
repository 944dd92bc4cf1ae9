"""Do the ranks of a job reach one another over plain TCP? What `dlrun verify` tries before any library.

At the job's rendezvous address all add up a number with rank 0 and compare clocks; over the interface that the plan
names, a mebibyte goes to rank 0 and back.
"""

import contextlib
import fcntl
import os
import socket
import struct
import time
from typing import Any, Dict, List, Optional, Tuple

PATIENCE = 60.0
"""Seconds that ranks wait for one another."""
SIZE = 1 << 20
SIOCGIFADDR = 0x8915  # linux/sockios.h
BULK, NUMBER = b"B", b"N"
"""What a connection to rank 0 begins with."""


def number(name: str) -> int:
    """A variable of the framework's agent (`RANK`), or the job's own (`DLRUN_RANK`)."""
    return int(os.environ.get(name, os.environ["DLRUN_" + name]))


def publish(name: str, *words: object) -> None:
    """Tell the other ranks of this very run, by a file of the run's directory, whole or not at all."""
    path = os.path.join(os.environ["DLRUN_RUN_DIR"], name)
    with open(path + ".new", "w") as stream:
        stream.write(" ".join(map(str, (os.environ["DLRUN_RUN_ID"], *words))))
    os.rename(path + ".new", path)


def published(name: str, patience: float) -> List[str]:
    """What rank 0 of this very run has told; OSError if it has not in so many seconds."""
    path = os.path.join(os.environ["DLRUN_RUN_DIR"], name)
    deadline = time.time() + patience
    while time.time() < deadline:
        try:
            with open(path) as stream:
                run, *words = stream.read().split()
            if run == os.environ["DLRUN_RUN_ID"]:
                return words
        except (OSError, ValueError):
            pass
        time.sleep(0.1)
    raise OSError("rank 0 never said where it listens")


def addresses() -> Dict[str, str]:
    """The IPv4 address of each network interface that has one."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(asking.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:  # it has none
                continue
            found[name] = socket.inet_ntoa(answer[20:24])
    return found


def planned(over: List[str]) -> str:
    """This node's address on the first planned interface that has one; empty if none has."""
    have = addresses()
    return next((have[name] for name in over if name in have), "")


def receive(connection: socket.socket, size: int) -> bytes:
    """Exactly so many bytes; OSError if the other side ends before."""
    parts = []
    while size:
        part = connection.recv(min(size, 1 << 16))
        if not part:
            raise OSError("the connection was closed")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def in_words(error: OSError) -> str:
    """What is wrong, without the number."""
    return error.strerror or str(error)


def listen() -> socket.socket:
    """A socket on the job's own port; on another one where an agent of the framework has that."""
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        server.bind(("", int(os.environ["DLRUN_MASTER_PORT"])))
    except OSError:
        server.bind(("", 0))
    server.listen(1024)
    return server


def first(world: int, over: List[str]) -> int:
    """Rank 0: send bytes back, add up what the others bring, tell all the sum; OSError if one does not come."""
    deadline = time.time() + PATIENCE
    server = listen()
    publish("check-port", server.getsockname()[1], planned(over) or "-")
    connections, total = [], 1  # type: List[socket.socket], int
    while len(connections) < world - 1:
        server.settimeout(max(0.1, deadline - time.time()))
        connection, _ = server.accept()
        connection.settimeout(PATIENCE)
        if receive(connection, 1) == NUMBER:
            total += int(receive(connection, 16).decode())
            connections.append(connection)
            continue
        with contextlib.suppress(OSError):  # the other side tells of it
            connection.sendall(receive(connection, SIZE))
        connection.close()
    for connection in connections:
        connection.sendall("{:16d}{:32.6f}".format(total, time.time()).encode())
        connection.close()
    return total


def bulk(place: Tuple[str, int], source: str) -> Dict[str, Any]:
    """A mebibyte there and back: the seconds, and the interface used (`lo` inside a node); or why it did not arrive."""
    try:
        connection = socket.create_connection(place, timeout=PATIENCE, source_address=(source, 0))
        with connection:
            begun = time.time()
            connection.sendall(BULK + b"x" * SIZE)
            receive(connection, SIZE)
            taken = time.time() - begun
            mine, other = connection.getsockname()[0], connection.getpeername()[0]
    except OSError as error:
        return {"unsent": in_words(error), "unsent_to": place[0]}
    names = {address: name for name, address in addresses().items()}
    return {"round_trip": taken, "interface": "lo" if mine == other else names.get(mine)}


def another(number: int, over: List[str]) -> Dict[str, Any]:
    """Any other rank: what came of the mebibyte, how far its clock is ahead of rank 0's, and the sum of all."""
    port, fabric = published("check-port", PATIENCE)
    rendezvous = os.environ["DLRUN_MASTER_ADDR"]
    found = bulk((fabric if fabric != "-" else rendezvous, int(port)), planned(over) if fabric != "-" else "")
    with socket.create_connection((rendezvous, int(port)), timeout=PATIENCE) as connection:
        connection.sendall(NUMBER + "{:16d}".format(number).encode())
        answer = receive(connection, 48).decode()
    found.update(clock=time.time() - float(answer[16:]), sum=int(answer[:16]))
    return found


def exchange(rank: int, world: int, over: List[str]) -> Dict[str, Optional[Any]]:
    """Everything for one rank; `unreached` says why rank 0's rendezvous was not reached, or who did not come."""
    try:
        if rank == 0:
            return {"sum": first(world, over), "clock": 0.0}
        return another(rank + 1, over)
    except OSError as error:
        return {"unreached": in_words(error), "rendezvous": os.environ["DLRUN_MASTER_ADDR"]}
