"""Train a small network on scikit-learn's handwritten digits with torch.distributed.

The data is part of the scikit-learn package; nothing is downloaded. One all-reduce per step averages the gradients,
which is all that data-parallel training needs.
"""

import argparse
import gzip
import importlib.util
import os
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist


def digits():
    """The 1,797 images (8 × 8, as floats in 0..1) and their labels, in a fixed random order."""
    package = Path(importlib.util.find_spec("sklearn").origin).parent
    with gzip.open(package / "datasets" / "data" / "digits.csv.gz") as stream:
        rows = np.loadtxt(stream, delimiter=",", dtype=np.float32)
    rows = rows[np.random.RandomState(1).permutation(len(rows))]
    return torch.from_numpy(rows[:, :64] / 16), torch.from_numpy(rows[:, 64].astype("int64"))


def train(options):
    rank, world = dist.get_rank(), dist.get_world_size()
    images, labels = digits()
    held_out = 360
    test_images, test_labels = images[:held_out], labels[:held_out]
    images, labels = images[held_out:], labels[held_out:]

    torch.manual_seed(0)  # every rank starts from the same weights
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    parameters = list(net.parameters())
    velocities = [torch.zeros_like(p) for p in parameters]
    for epoch in range(options.epochs):
        begun = time.time()
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))
        mine = order[: len(order) // world * world][rank::world]
        for start in range(0, len(mine), options.batch):
            batch = mine[start : start + options.batch]
            net.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(images[batch]), labels[batch])
            loss.backward()
            gradient = torch.cat([p.grad.view(-1) for p in parameters])
            dist.all_reduce(gradient)
            step(parameters, velocities, gradient / world, options)
        if rank == 0:
            rate = len(mine) * world / (time.time() - begun)
            print(f"epoch {epoch + 1:2d}  loss {loss.item():.4f}  {rate:.0f} samples/s", flush=True)
    with torch.no_grad():
        return net, (net(test_images).argmax(1) == test_labels).float().mean().item()


def step(parameters, velocities, gradient, options):
    """Stochastic gradient descent with momentum, from the flat averaged gradient."""
    offset = 0
    with torch.no_grad():
        for parameter, velocity in zip(parameters, velocities, strict=True):
            part = gradient[offset : offset + parameter.numel()].view_as(parameter)
            velocity.mul_(0.9).add_(part)
            parameter.sub_(options.lr * velocity)
            offset += parameter.numel()


def replicas_equal(net):
    """True if every rank ended with the same parameters, element by element."""
    mine = torch.cat([p.detach().view(-1) for p in net.parameters()])
    first = mine.clone()
    dist.broadcast(first, src=0)
    equal = torch.tensor(float(torch.equal(mine, first)))
    dist.all_reduce(equal, op=dist.ReduceOp.MIN)
    return bool(equal.item())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch", type=int, default=32, help="samples a rank takes in a step")
    parser.add_argument("--lr", type=float, default=0.15)
    parser.add_argument("--expect", type=float, default=0.0, help="fail below this test accuracy")
    options = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    print(
        f"rank {rank} of {world} on {os.uname().nodename}, cores {sorted(os.sched_getaffinity(0))}",
        flush=True,
    )
    net, accuracy = train(options)
    equal = replicas_equal(net)
    if rank == 0:
        print(
            f"test accuracy {accuracy:.4f} with {world} ranks, replicas {'equal' if equal else 'DIFFER'}",
            flush=True,
        )
    dist.destroy_process_group()
    if not equal or accuracy < options.expect:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
