"""Fit a linear model by data-parallel SGD with Hugging Face Accelerate; print a digest of the parameters."""

import argparse
import hashlib
import os

import torch
from accelerate import Accelerator


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    accelerator = Accelerator()
    rank, world = accelerator.process_index, accelerator.num_processes

    random = torch.Generator().manual_seed(0)
    inputs = torch.rand(512, 16, generator=random)
    targets = inputs.sum(1, keepdim=True)
    inputs, targets = inputs[rank::world], targets[rank::world]
    torch.manual_seed(rank)  # replicas differ at first: prepare makes them equal
    model = torch.nn.Linear(16, 1)
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.05))

    losses = []
    for step in range(options.steps):
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        losses.append(loss.item())
        if step % 10 == 0:
            print(f"step {step} loss {losses[-1]:.5f}", flush=True)

    values = torch.cat([p.detach().view(-1) for p in model.parameters()]).cpu().numpy().tobytes()
    print(f"rank {rank} of {world} on {os.uname().nodename}, {accelerator.distributed_type}")
    print(
        f"loss {losses[0]:.5f} -> {losses[-1]:.5f}, parameters {hashlib.sha256(values).hexdigest()[:12]}",
        flush=True,
    )
    accelerator.end_training()


if __name__ == "__main__":
    main()
