"""FSDP2: parameters, gradients and optimizer states are sharded over all ranks; on GPUs with NCCL, else on CPUs with Gloo."""

from __future__ import annotations

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def main() -> None:
    """Train a small network; every rank must end with the same loss, and with its part of the parameters."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=30)
    steps = parser.parse_args().steps
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dist.init_process_group("nccl" if device == "cuda" else "gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 8)).to(device)
    whole = sum(p.numel() for p in model.parameters())
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    for layer in model:
        if any(True for _ in layer.parameters()):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    torch.manual_seed(dist.get_rank())
    first = last = 0.0
    for _ in range(steps):
        x = torch.randn(32, 64, device=device)
        loss = nn.functional.mse_loss(model(x), x[:, :8])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total = loss.detach()
        dist.all_reduce(total)
        last = total.item() / dist.get_world_size()
        first = first or last
    own = sum(p.to_local().numel() for p in model.parameters())
    print(
        f"rank {dist.get_rank()} holds {own} of {whole} parameters; loss {first:.3f} to {last:.3f}",
        flush=True,
    )
    dist.barrier()
    dist.destroy_process_group()
    if device == "cpu":
        # The device mesh keeps Gloo's threads: one that frees a tensor while the interpreter ends aborts the process.
        os._exit(0)


if __name__ == "__main__":
    main()
