"""PyTorch's DistributedDataParallel on CPUs: two ranks, gloo. Throughput is by the CPU time of all ranks, so that other work
on the machine does not count.

    ddp.py BUCKET VIEW

BUCKET is `bucket_cap_mb`; VIEW (0 or 1) is `gradient_as_bucket_view`. Neither changes what is computed.
"""

import os
import sys
import time

import torch
import torch.distributed as dist

BATCH = 16


def main(bucket, view):
    """Five times twelve steps, the first to warm up."""
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    layers = [layer for _ in range(40) for layer in (torch.nn.Linear(128, 128), torch.nn.ReLU())]
    net = torch.nn.parallel.DistributedDataParallel(
        torch.nn.Sequential(*layers), bucket_cap_mb=bucket, gradient_as_bucket_view=bool(view)
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    batch = torch.randn(BATCH, 128)
    for part in range(5):
        began = time.process_time()
        for _ in range(12):
            optimizer.zero_grad()
            net(batch).square().mean().backward()
            optimizer.step()
        used = torch.tensor(time.process_time() - began)
        dist.all_reduce(used)
        if part > 1 and dist.get_rank() == 0:
            print(f"throughput: {12 * BATCH * dist.get_world_size() / used.item():.1f} samples/s", flush=True)
    dist.destroy_process_group()


main(float(sys.argv[1]), int(sys.argv[2]))
