"""Runs in place of a training: says what this rank really is, and whether it reaches the others.

    python3 check_rank.py [WAY...]

Every rank exchanges a mebibyte with rank 0 over plain TCP at the job's rendezvous address, and all add up a
number. Prints one line: `dlrun-check` and JSON. With ways (`torch`, `mpi4py`) it then starts library_check.py, a process
of its own since a library may end it, in which the first way that is there does the same by its communication library.
"""

import fcntl
import json
import os
import resource
import socket
import struct
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional, Tuple

PATIENCE = 60.0
LIBRARY = 300.0
"""Seconds that the library's test may take: from a cold file system, imports alone take minutes."""
SIZE = 1 << 20
VISIBLE = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")
MATTER = ("NCCL_", "RCCL_", "GLOO_", "UCX_", "FI_", "CCL_", "I_MPI_", "MPICH_", "OMPI_MCA_", "PSM2_", "PSM3_", "OMP_",
          "KMP_", "MKL_", "HSA_")  # fmt: skip
"""How the names of variables begin that steer threads and communication."""
SIOCGIFADDR = 0x8915  # linux/sockios.h


def memory_policy() -> Optional[str]:
    """What the kernel says of this process's memory, such as `bind:0`; None where it does not say."""
    try:
        with open("/proc/self/numa_maps") as maps:
            return maps.readline().split()[1]
    except (OSError, IndexError):
        return None


def numbers(text: str) -> List[int]:
    """A kernel's list such as `0-3,8` as numbers."""
    found = []  # type: List[int]
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            found += range(int(first), int(last or first) + 1)
    return found


def inherited() -> Optional[List[int]]:
    """The CPUs that this rank's script was started with, before it bound itself; None where it did not say."""
    said = os.environ.get("DLRUN_ALLOWED")
    return sorted(map(int, said.split())) if said else None


def granted() -> Optional[List[int]]:
    """The CPUs that this process's control group allows; None where there is none for CPUs."""
    try:
        with open("/proc/self/cgroup") as groups:
            for line in groups:
                _, controllers, path = line.rstrip("\n").split(":", 2)
                if not controllers:
                    place = "/sys/fs/cgroup" + path + "/cpuset.cpus.effective"
                elif "cpuset" in controllers.split(","):
                    place = "/sys/fs/cgroup/cpuset" + path + "/cpuset.cpus"
                else:
                    continue
                if os.path.exists(place):
                    with open(place) as stream:
                        return numbers(stream.read()) or None
    except (OSError, ValueError):
        pass
    return None


def cores() -> List[List[int]]:
    """The hardware threads of each core of this node that has several, as the kernel numbers them."""
    base, found = "/sys/devices/system/cpu", set()
    for name in os.listdir(base) if os.path.isdir(base) else []:
        try:
            with open(os.path.join(base, name, "topology", "thread_siblings_list")) as stream:
                found.add(tuple(numbers(stream.read())))
        except (OSError, ValueError):
            continue
    return sorted(list(core) for core in found if len(core) > 1)


def adapters(root: str = "/sys/class") -> Dict[str, str]:
    """The node's network adapters and interfaces with their state, such as `mlx5_0: active`, `eth0: up`."""
    found = {}  # type: Dict[str, str]
    for kind, state in (("infiniband", "ports/1/state"), ("net", "operstate")):
        base = os.path.join(root, kind)
        for name in sorted(os.listdir(base)) if os.path.isdir(base) else []:
            try:
                with open(os.path.join(base, name, state)) as stream:
                    found[name] = (
                        stream.read().strip().rpartition(" ")[2].lower()
                    )  # InfiniBand's: `4: ACTIVE`
            except OSError:
                continue
    return found


def interface(address: str) -> Optional[str]:
    """The network interface that has an IPv4 address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                answer = fcntl.ioctl(asking.fileno(), SIOCGIFADDR, request)
            except OSError:  # it has none
                continue
            if socket.inet_ntoa(answer[20:24]) == address:
                return name
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
        "inherited": inherited(),
        "granted": granted(),
        "cores": cores(),
        "adapters": adapters(),
        "variables": {name: environment[name] for name in sorted(environment) if name.startswith(MATTER)},
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


def by_library(ways: List[str]) -> None:
    """Let the communication library do the same in a process of its own, which prints what came of it."""
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "library_check.py")
    environment = {name: value for name, value in os.environ.items() if name != "NCCL_DEBUG_FILE"}
    # Open descriptors stay open: by one of them, a process manager may talk to MPI.
    child = subprocess.Popen([sys.executable, program, *ways], close_fds=False, env=environment)
    try:
        code = child.wait(timeout=LIBRARY)
        failed = "it ended with exit code {}".format(code) if code else None
    except subprocess.TimeoutExpired:
        child.kill()
        failed = "it had not ended after {:.0f} s".format(LIBRARY)
    if failed is not None:
        number = int(os.environ.get("RANK", os.environ["DLRUN_RANK"]))
        said = {"rank": number, "failed": failed}
        sys.stdout.write("dlrun-library " + json.dumps(said) + "\n")


def main(ways: List[str]) -> int:
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
            report["interface"] = interface(report["address"])
    except OSError as error:
        report["unreached"] = str(error)
    sys.stdout.write("dlrun-check " + json.dumps(report) + "\n")
    sys.stdout.flush()
    if ways:
        by_library(ways)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
