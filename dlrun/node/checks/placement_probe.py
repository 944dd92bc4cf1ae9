"""A process's placement as the kernel reports it: the CPUs of its threads and its memory policy.

`check_rank` imports it. As a program (`tune-affinity --verify` starts it in place of each rank) it first starts as many
threads as its argument: an OpenMP team through libgomp, as a training would, or plain threads without libgomp.
"""

import ctypes
import json
import os
import platform
import sys
import threading
from typing import List, NamedTuple

GET_MEMPOLICY = {"x86_64": 239, "aarch64": 236, "ppc64le": 260}
POLICIES = {
    0: "none",
    1: "preferred",
    2: "strict",
    3: "interleave",
    4: "none",
    5: "preferred",
    6: "interleave",
}
"""MPOL_* of linux/mempolicy.h -> value of the key `placement.memory`."""
IN_MAPS = (("prefer", "preferred"), ("bind", "strict"), ("default", "none"), ("local", "none"),
           ("interleave", "interleave"), ("weighted", "interleave"))  # fmt: skip
"""The same for policies as named in /proc/PID/numa_maps."""
NODES = 1024


class MemoryPolicy(NamedTuple):
    """How a process gets its memory: one of `POLICIES` (`unknown` if the kernel does not report it), and NUMA nodes."""

    name: str
    nodes: List[int]


def main() -> None:
    """Print the CPU lists of all threads and the memory policy, as JSON."""
    count = int(sys.argv[1])
    team = _openmp_team(count)
    if not team:
        _plain_team(count)
    policy = memory_policy()
    report = {"threads": thread_masks("self"), "team": team, "policy": policy.name, "nodes": policy.nodes}
    sys.stdout.write(json.dumps(report) + "\n")
    sys.stdout.flush()
    os._exit(0)


def thread_masks(process: str) -> List[str]:
    """The CPU list of each thread of a process, the main thread first; empty if the process has ended."""
    masks, tasks = [], "/proc/{}/task".format(process)  # type: List[str], str
    try:
        names = sorted(os.listdir(tasks), key=int)
    except OSError:
        return masks
    for name in names:
        try:
            with open("{}/{}/status".format(tasks, name)) as status:
                masks += [
                    line.split(":")[1].strip() for line in status if line.startswith("Cpus_allowed_list:")
                ]
        except OSError:
            continue
    return masks


def memory_policy() -> MemoryPolicy:
    """That of this thread."""
    number = GET_MEMPOLICY.get(platform.machine())
    mode, mask = ctypes.c_int(-1), (ctypes.c_ulong * (NODES // 64))()
    if (
        number is None
        or ctypes.CDLL(None).syscall(number, ctypes.byref(mode), mask, NODES, None, 0) != 0
        or mode.value & 0xFF not in POLICIES
    ):
        return memory_policy_of("self")  # containers often refuse the system call (seccomp)
    # The upper bits are flags (MPOL_F_STATIC_NODES and the like).
    nodes = [n for n in range(NODES) if mask[n // 64] >> (n % 64) & 1]
    return MemoryPolicy(POLICIES[mode.value & 0xFF], nodes)


def memory_policy_of(process: str) -> MemoryPolicy:
    """That of a process, from numa_maps; also `unknown` if the process has ended."""
    try:
        with open("/proc/{}/numa_maps".format(process)) as maps:
            return policy_in(maps.readline())
    except OSError:
        return MemoryPolicy("unknown", [])


def policy_in(line: str) -> MemoryPolicy:
    """That of a line of /proc/PID/numa_maps."""
    words = line.split()
    # `prefer (many):0-1`, `weighted interleave:0-1`.
    both = words[1:2] in (["prefer"], ["weighted"])
    text = "".join(words[1:3] if both else words[1:2])
    policy, _, nodes = text.partition(":")
    known = [name for start, name in IN_MAPS if policy.startswith(start)]
    return MemoryPolicy((known or [policy or "unknown"])[0], numbers(nodes))


def numbers(text: str) -> List[int]:
    """The numbers of a kernel list such as `0-3,8`."""
    indices = []  # type: List[int]
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            indices += range(int(first), int(last or first) + 1)
    return indices


def _openmp_team(count: int) -> bool:
    try:
        gomp = ctypes.CDLL("libgomp.so.1")
    except OSError:
        return False
    body = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)
    # libgomp keeps the team for the next parallel region, so its CPU masks can be read now.
    gomp.GOMP_parallel(body, None, count, 0)
    return True


def _plain_team(count: int) -> None:
    ready = threading.Barrier(count)
    for _ in range(count - 1):
        threading.Thread(target=lambda: (ready.wait(), threading.Event().wait()), daemon=True).start()
    ready.wait()


if __name__ == "__main__":
    main()
