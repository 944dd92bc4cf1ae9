"""Run as a rank by `tune-affinity --measure --report`: memory bandwidth, matrix product and all-reduce, as JSON.

All ranks run the same loads at the same time, like a training. It needs only the standard library; without NumPy the
matrix product is left out, and the all-reduce only moves data. It has its own file because it runs as a program.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ARRAY = 64 * 2**20
"""Bytes copied per step and rank, divided among its threads: more than its share of the last-level cache."""

MESSAGE = 4 * 2**20
"""Bytes of the all-reduce: a bucket of gradients."""

SIZE = 1024
"""Rows and columns of the matrices."""


class Ring:
    """A ring of the ranks over Unix sockets in a common directory."""

    def __init__(self, directory: str, rank: int, count: int) -> None:
        self.rank, self.count = rank, count
        if count == 1:
            return
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(Path(directory, str(rank))))
        listener.listen(1)
        self.next = socket.socket(socket.AF_UNIX)
        deadline = time.monotonic() + 60
        while True:
            try:
                self.next.connect(str(Path(directory, str((rank + 1) % count))))
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        self.previous, _ = listener.accept()

    def pass_on(self, data: memoryview, into: memoryview) -> None:
        """Send to the next rank while receiving `len(into)` bytes from the previous one."""
        # In a thread: if all ranks sent before they receive, full socket buffers would block the ring.
        sender = threading.Thread(target=self.next.sendall, args=(data,))
        sender.start()
        got = 0
        while got < len(into):
            more = self.previous.recv_into(into[got:])
            if more == 0:
                raise ConnectionError("another rank has ended")
            got += more
        sender.join()

    def agree(self, vote: bool) -> bool:
        """Whether all ranks vote True; also a barrier."""
        everyone = vote
        for _ in range(self.count - 1):
            got = bytearray(1)
            self.pass_on(memoryview(bytes([everyone])), memoryview(got))
            everyone = everyone and bool(got[0])
        return everyone


def main() -> None:
    """Measure each load for argv[1] seconds, with a ring in the directory argv[2]; print the rates as JSON."""
    seconds, directory = float(sys.argv[1]), sys.argv[2]
    rank = int(os.environ.get("RANK") or os.environ.get("SLURM_PROCID", "0"))
    count = int(os.environ.get("WORLD_SIZE") or os.environ.get("SLURM_NTASKS", "1"))
    threads = int(os.environ.get("OMP_NUM_THREADS") or len(os.sched_getaffinity(0)))
    ring = Ring(directory, rank, count)
    rates = {"bandwidth": rate(ring, bandwidth(threads), seconds) / 1e9}
    if importlib.util.find_spec("numpy"):
        rates["gemm"] = rate(ring, gemm(), seconds) / 1e9
    if count > 1:
        rates["all-reduce"] = rate(ring, all_reduce(ring), seconds) / 1e6
    sys.stdout.write(json.dumps(rates) + "\n")
    sys.stdout.flush()
    # Not sys.exit: the interpreter's shutdown waits for all threads.
    os._exit(0)


def rate(ring: Ring, step: Callable[[], float], seconds: float) -> float:
    """Work per second; all ranks begin and end with the same step."""
    step()
    ring.agree(True)
    start, done = time.monotonic(), 0.0
    while True:
        done += step()
        elapsed = time.monotonic() - start
        if not ring.agree(elapsed < seconds):
            return done / elapsed


def bandwidth(threads: int) -> Callable[[], float]:
    """A step of memory copies in all threads; its work in bytes read and written.

    ctypes calls `memmove` without the interpreter lock.
    """
    part = ARRAY // threads
    pool = ThreadPoolExecutor(threads)

    def allocate(_: int) -> tuple[ctypes.Array[ctypes.c_char], ctypes.Array[ctypes.c_char]]:
        pair = ctypes.create_string_buffer(part), ctypes.create_string_buffer(part)
        for buffer in pair:
            # First touch: the kernel places the pages on the NUMA node of this thread.
            ctypes.memset(buffer, 1, part)
        return pair

    buffers = list(pool.map(allocate, range(threads)))

    def step() -> float:
        list(pool.map(lambda pair: ctypes.memmove(pair[0], pair[1], part), buffers))
        return 2.0 * part * threads

    return step


def gemm() -> Callable[[], float]:
    """A step of a single-precision matrix product in NumPy; its work in floating-point operations."""
    import numpy as np

    a = np.ones((SIZE, SIZE), dtype=np.float32)
    b, c = a.copy(), a.copy()

    def step() -> float:
        np.matmul(a, b, out=c)
        return 2.0 * SIZE**3

    return step


def all_reduce(ring: Ring) -> Callable[[], float]:
    """A step of a ring all-reduce (reduce-scatter, all-gather); its work in bytes reduced."""
    part = MESSAGE // ring.count // 4 * 4
    data = bytearray(MESSAGE)
    got = bytearray(part)
    view = memoryview(data)
    add = None
    if importlib.util.find_spec("numpy"):
        import numpy as np

        mine, theirs = np.frombuffer(data, dtype=np.float32), np.frombuffer(got, dtype=np.float32)

        def add(begin: int) -> None:
            mine[begin // 4 : (begin + part) // 4] += theirs

    def step() -> float:
        for turn in range(2 * (ring.count - 1)):
            begin = (ring.rank - turn) % ring.count * part
            ring.pass_on(view[begin : begin + part], memoryview(got))
            into = (ring.rank - turn - 1) % ring.count * part
            if turn < ring.count - 1 and add is not None:
                add(into)
            else:
                view[into : into + part] = got
        return float(MESSAGE)

    return step


if __name__ == "__main__":
    main()
