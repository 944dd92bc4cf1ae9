"""Fit a linear model by data-parallel SGD with DistributedDataParallel; print a digest of the parameters."""

import argparse
import hashlib
import os

import torch
import torch.distributed as dist


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()

    random = torch.Generator().manual_seed(0)
    inputs = torch.rand(512, 16, generator=random)
    targets = inputs.sum(1, keepdim=True)
    inputs, targets = inputs[rank::world], targets[rank::world]
    torch.manual_seed(rank)  # replicas differ at first: DistributedDataParallel makes them equal
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    losses = []
    for step in range(options.steps):
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step % 10 == 0:
            print(f"step {step} loss {losses[-1]:.5f}", flush=True)

    values = torch.cat([p.detach().view(-1) for p in model.parameters()]).numpy().tobytes()
    print(f"rank {rank} of {world} on {os.uname().nodename}, {torch.get_num_threads()} threads")
    print(
        f"loss {losses[0]:.5f} -> {losses[-1]:.5f}, parameters {hashlib.sha256(values).hexdigest()[:12]}",
        flush=True,
    )
    dist.barrier()
    # Without the end of the interpreter: on the CPU it may destroy a running thread of Gloo, which aborts the process.
    os._exit(0)


if __name__ == "__main__":
    main()
