"""Starts a team of threads in an OpenMP runtime (library, threads) and prints the CPUs of each, by number."""

from __future__ import annotations

import ctypes
import json
import os
import sys

library = ctypes.CDLL(sys.argv[1])
count = int(sys.argv[2])
seen: dict[int, list[int]] = {}


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def body(_: object) -> None:
    seen[library.omp_get_thread_num()] = sorted(os.sched_getaffinity(0))


library.GOMP_parallel(body, None, count, 0)
sys.stdout.write(json.dumps([seen[i] for i in range(len(seen))]) + "\n")
sys.stdout.flush()
os._exit(0)  # the runtime's own end would join threads that Python still knows
