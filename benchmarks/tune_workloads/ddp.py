"""PyTorch's DistributedDataParallel on CPUs: two ranks, gloo. Throughput is relative to the CPU time of all ranks, so that
other work on the machine does not count.

    ddp.py BUCKET VIEW STATIC [PARTS]

BUCKET is `bucket_cap_mb`; VIEW (0 or 1) is `gradient_as_bucket_view`, STATIC `static_graph`. None changes the result.
"""

import os
import sys
import time

import torch
import torch.distributed as dist

BATCH, STEPS = 16, 30


def main(bucket, view, static, parts=8):
    """Train PARTS times 30 steps; the first 30 warm up."""
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    layers = [layer for _ in range(40) for layer in (torch.nn.Linear(128, 128), torch.nn.ReLU())]
    net = torch.nn.parallel.DistributedDataParallel(
        torch.nn.Sequential(*layers),
        bucket_cap_mb=bucket,
        gradient_as_bucket_view=bool(view),
        static_graph=bool(static),
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    batch = torch.randn(BATCH, 128)
    for part in range(parts):
        began = time.process_time()
        for _ in range(STEPS):
            optimizer.zero_grad()
            net(batch).square().mean().backward()
            optimizer.step()
        used = torch.tensor(time.process_time() - began)
        dist.all_reduce(used)
        if part and dist.get_rank() == 0:
            print(
                f"throughput: {STEPS * BATCH * dist.get_world_size() / used.item():.1f} samples/s", flush=True
            )
    dist.barrier()
    # In one of ten runs the interpreter aborts at its end, because a running thread of Gloo is destroyed.
    os._exit(0)


main(float(sys.argv[1]), *map(int, sys.argv[2:]))
