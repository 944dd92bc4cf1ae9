"""Fit a linear model by data-parallel SGD with Horovod; print a digest of the parameters."""

import argparse
import hashlib
import os

import horovod.torch as hvd
import torch


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    hvd.init()
    rank, world = hvd.rank(), hvd.size()
    if torch.cuda.is_available():
        torch.cuda.set_device(hvd.local_rank() % torch.cuda.device_count())

    random = torch.Generator().manual_seed(0)
    inputs = torch.rand(512, 16, generator=random)
    targets = inputs.sum(1, keepdim=True)
    inputs, targets = inputs[rank::world], targets[rank::world]
    torch.manual_seed(rank)  # replicas differ at first: the broadcast makes them equal
    model = torch.nn.Linear(16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)

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
    controller = "MPI" if hvd.mpi_enabled() else "Gloo"
    print(
        f"rank {rank} of {world}, {hvd.local_rank()} of {hvd.local_size()} on {os.uname().nodename}, {controller}"
    )
    print(
        f"loss {losses[0]:.5f} -> {losses[-1]:.5f}, parameters {hashlib.sha256(values).hexdigest()[:12]}",
        flush=True,
    )
    hvd.shutdown()


if __name__ == "__main__":
    main()
