"""Runs in place of a training: says what this rank really is, and whether it reaches the others.

    python3 check_rank.py

Every rank exchanges a mebibyte with rank 0 over plain TCP at the job's rendezvous address, and all add up a
number. Prints one line: `dlrun-check` and JSON.
"""

import json
import os
import resource
import socket
import sys
import time
from typing import Any, Dict, List, Optional, Tuple

PATIENCE = 60.0
SIZE = 1 << 20
VISIBLE = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")


def memory_policy() -> Optional[str]:
    """What the kernel says of this process's memory, such as `bind:0`; None where it does not say."""
    try:
        with open("/proc/self/numa_maps") as maps:
            return maps.readline().split()[1]
    except (OSError, IndexError):
        return None


def itself() -> Dict[str, Any]:
    """What this rank is."""
    environment = os.environ
    return {
        "rank": int(environment.get("RANK", environment["DLRUN_RANK"])),
        "local_rank": int(environment.get("LOCAL_RANK", environment["DLRUN_LOCAL_RANK"])),
        "host": environment["DLRUN_HOST"],
        "mask": sorted(os.sched_getaffinity(0)),
        "threads": environment.get("OMP_NUM_THREADS"),
        "memory": memory_policy(),
        "gpus": {name: environment[name] for name in VISIBLE if name in environment},
        "open_files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "locked_memory": resource.getrlimit(resource.RLIMIT_MEMLOCK)[0],
    }


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


def publish(port: int) -> None:
    """Tell the others the port, whole or not at all."""
    path = os.path.join(os.environ["DLRUN_RUN_DIR"], "check-port")
    with open(path + ".new", "w") as stream:
        stream.write("{} {}\n".format(os.environ["DLRUN_RUN_ID"], port))
    os.rename(path + ".new", path)


def published(deadline: float) -> int:
    """The port that rank 0 of this very run listens on."""
    path = os.path.join(os.environ["DLRUN_RUN_DIR"], "check-port")
    while time.time() < deadline:
        try:
            with open(path) as stream:
                run, port = stream.read().split()
            if run == os.environ["DLRUN_RUN_ID"]:
                return int(port)
        except (OSError, ValueError):
            pass
        time.sleep(0.1)
    raise OSError("rank 0 never said where it listens")


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


def first(world: int) -> Tuple[float, int]:
    """Rank 0: send each rank's bytes back, add up what they bring, tell all the sum."""
    deadline = time.time() + PATIENCE
    server = listen()
    publish(server.getsockname()[1])
    connections: List[socket.socket] = []
    total = 1
    while len(connections) < world - 1:
        server.settimeout(max(0.1, deadline - time.time()))
        connection, _ = server.accept()
        connection.settimeout(PATIENCE)
        connection.sendall(receive(connection, SIZE))
        total += int(receive(connection, 16).decode())
        connections.append(connection)
    for connection in connections:
        connection.sendall("{:16d}{:32.6f}".format(total, time.time()).encode())
        connection.close()
    return time.time(), total


def other(number: int) -> Tuple[float, int, float, str]:
    """Any other rank: rank 0's clock, the sum, the time of a mebibyte there and back, and the address used."""
    deadline = time.time() + PATIENCE
    place = (os.environ["DLRUN_MASTER_ADDR"], published(deadline))
    connection = socket.create_connection(place, timeout=PATIENCE)
    begun = time.time()
    connection.sendall(b"x" * SIZE)
    receive(connection, SIZE)
    taken = time.time() - begun
    connection.sendall("{:16d}".format(number).encode())
    answer = receive(connection, 48).decode()
    return float(answer[16:]), int(answer[:16]), taken, connection.getsockname()[0]


def main() -> int:
    """Print the report; 0 also where something is wrong: the report says what."""
    report = itself()
    world = int(os.environ.get("WORLD_SIZE", os.environ["DLRUN_WORLD_SIZE"]))
    try:
        if report["rank"] == 0:
            report["sum"] = first(world)[1]
            report["clock"] = 0.0
        else:
            clock, report["sum"], report["round_trip"], report["address"] = other(report["rank"] + 1)
            report["clock"] = time.time() - clock
    except OSError as error:
        report["unreached"] = str(error)
    sys.stdout.write("dlrun-check " + json.dumps(report) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
