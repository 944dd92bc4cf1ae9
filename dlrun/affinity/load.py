"""Run as a rank by `tune-affinity --measure`: repeat a small training step, then print its rate as JSON.

With PyTorch, data-parallel training of a small network (gloo, whose threads get the rank's communication cores, if any);
with only NumPy a matrix product; without both, hashing in threads with the standard library.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

WARM_UP = 3
"""Untimed steps, which start threads and allocate memory."""

LEAST = 0.5
"""Minimum seconds of timed steps."""

BATCH = 128


Step = Callable[[bool], bool]
"""Runs one step; the argument is whether this rank has time left, the result whether all ranks have."""


def main() -> None:
    """Run steps for argv[1] seconds, at most until argv[2] on `time.monotonic` (the same for all processes of a machine), at
    least for `LEAST` seconds; print this rank's samples/s."""
    seconds, end = float(sys.argv[1]), float(sys.argv[2])
    if not find_spec("numpy"):
        library, step = "hash", _hash_step()
    elif find_spec("torch"):
        library, step = "torch", _torch_step()
    else:
        library, step = "numpy", _numpy_step()
    for _ in range(WARM_UP):
        step(True)
    start = time.monotonic()
    until = max(min(start + seconds, end), start + LEAST)
    steps = 1
    while step(time.monotonic() < until):
        steps += 1
    elapsed = time.monotonic() - start
    sys.stdout.write(json.dumps({"load": library, "rate": steps * BATCH / elapsed}) + "\n")
    sys.stdout.flush()
    # Not sys.exit: the shutdown of gloo may wait for ranks that have already ended.
    os._exit(0)


def _torch_step() -> Step:
    import torch
    import torch.distributed as dist

    torch.manual_seed(0)
    layers = [torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 512), torch.nn.ReLU()]
    network: torch.nn.Module = torch.nn.Sequential(*layers, torch.nn.Linear(512, 10))
    data = torch.randn(BATCH, 512)
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if ranks > 1:
        # Gloo's threads start here and inherit the mask of this moment.
        with _on_communication_cores():
            dist.init_process_group("gloo")
        network = torch.nn.parallel.DistributedDataParallel(network)

    def step(has_time: bool) -> bool:
        network.zero_grad(set_to_none=True)
        network(data).square().mean().backward()
        left = torch.tensor([float(has_time)])
        # All ranks must stop at the same step: the next backward pass waits for all of them.
        if ranks > 1:
            dist.all_reduce(left, op=dist.ReduceOp.MIN)
        return bool(left.item())

    return step


@contextmanager
def _on_communication_cores() -> Iterator[None]:
    """Threads started within the block inherit the communication cores of this rank, if it has any."""
    cpus = [int(cpu) for cpu in os.environ.get("DLRUN_COMM_CPUS", "").split(",") if cpu]
    own = os.sched_getaffinity(0)
    try:
        if cpus:
            os.sched_setaffinity(0, cpus)
        yield
    finally:
        os.sched_setaffinity(0, own)


def _numpy_step() -> Step:
    import numpy as np

    a = np.random.default_rng(0).random((BATCH * 4, 1024), dtype=np.float32)
    b = a.T.copy()

    def step(has_time: bool) -> bool:
        np.matmul(a, b)
        return has_time

    return step


def _hash_step() -> Step:
    import hashlib
    from concurrent.futures import ThreadPoolExecutor

    count = int(os.environ.get("OMP_NUM_THREADS", "1"))
    pool = ThreadPoolExecutor(count)
    block = bytes(2**23 // count)

    def step(has_time: bool) -> bool:
        # Hashing releases the interpreter lock, so the threads run concurrently.
        list(pool.map(lambda _: hashlib.sha256(block).digest(), range(count)))
        return has_time

    return step


if __name__ == "__main__":
    main()
