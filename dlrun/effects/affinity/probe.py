"""Run as a rank by `tune-affinity --verify`: says, as JSON, where its threads may run and its memory policy.

It starts a team of OpenMP threads through libgomp, as a training program would, or plain threads where
there is no libgomp. A file of its own because it runs as a program, with the standard library alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import sys
import threading
from pathlib import Path

GET_MEMPOLICY = {"x86_64": 239, "aarch64": 236, "ppc64le": 260}
POLICIES = {0: "none", 1: "preferred", 2: "strict", 5: "preferred"}
NODES = 1024


def main() -> None:
    """Start as many threads as the argument says and print what the system says of all of them."""
    count = int(sys.argv[1])
    team = _openmp_team(count)
    if not team:
        _plain_team(count)
    policy, nodes = memory_policy()
    threads = thread_masks("self")
    sys.stdout.write(json.dumps({"threads": threads, "team": team, "policy": policy, "nodes": nodes}) + "\n")
    sys.stdout.flush()
    os._exit(0)


def thread_masks(process: str) -> list[str]:
    """The CPU list of every thread of a process, the first thread's first; none if it has ended."""
    masks: list[str] = []
    with contextlib.suppress(OSError):
        for task in sorted(Path("/proc", process, "task").iterdir(), key=lambda path: int(path.name)):
            with contextlib.suppress(OSError):
                lines = (task / "status").read_text().splitlines()
                masks += [
                    line.split(":")[1].strip() for line in lines if line.startswith("Cpus_allowed_list:")
                ]
    return masks


def memory_policy() -> tuple[str, list[int]]:
    """Policy and nodes of this thread, `unknown` where the system does not report it."""
    number = GET_MEMPOLICY.get(platform.machine())
    if number is None:
        return "unknown", []
    mode = ctypes.c_int(-1)
    mask = (ctypes.c_ulong * (NODES // 64))()
    if ctypes.CDLL(None).syscall(number, ctypes.byref(mode), mask, NODES, None, 0) != 0:
        return "unknown", []
    nodes = [n for n in range(NODES) if mask[n // 64] >> (n % 64) & 1]
    # The upper bits are flags (MPOL_F_STATIC_NODES and the like).
    return POLICIES.get(mode.value & 0xFF, "unknown"), nodes


def _openmp_team(count: int) -> bool:
    try:
        gomp = ctypes.CDLL("libgomp.so.1")
    except OSError:
        return False
    body = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)
    gomp.GOMP_parallel(body, None, count, 0)  # the team stays for the next region, so its masks can be read
    return True


def _plain_team(count: int) -> None:
    ready = threading.Barrier(count)
    for _ in range(count - 1):
        threading.Thread(target=lambda: (ready.wait(), threading.Event().wait()), daemon=True).start()
    ready.wait()


if __name__ == "__main__":
    main()
