"""Fit a linear model by data-parallel SGD with Ray Train; every worker prints a digest of the parameters."""

import argparse

import ray
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer, prepare_model


def train(options):
    import hashlib
    import os

    import torch

    context = ray.train.get_context()
    rank, world = context.get_world_rank(), context.get_world_size()
    random = torch.Generator().manual_seed(0)
    inputs = torch.rand(512, 16, generator=random)
    targets = inputs.sum(1, keepdim=True)
    inputs, targets = inputs[rank::world], targets[rank::world]
    torch.manual_seed(rank)  # replicas differ at first: prepare_model makes them equal
    model = prepare_model(torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for step in range(options["steps"]):
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step % 10 == 0:
            print(f"step {step} loss {losses[-1]:.5f}", flush=True)
    values = torch.cat([p.detach().view(-1) for p in model.parameters()]).numpy().tobytes()
    digest = hashlib.sha256(values).hexdigest()[:12]
    print(f"rank {rank} of {world} on {os.uname().nodename}")
    print(f"loss {losses[0]:.5f} -> {losses[-1]:.5f}, parameters {digest}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--storage", default="/tmp/ray-results")
    options = parser.parse_args()
    ray.init()  # RAY_ADDRESS is the address of the head
    scaling = ScalingConfig(
        num_workers=options.workers, resources_per_worker={"CPU": 1}, placement_strategy="SPREAD"
    )
    trainer = TorchTrainer(
        train,
        train_loop_config={"steps": options.steps},
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=scaling,
        run_config=RunConfig(storage_path=options.storage),
    )
    trainer.fit()


if __name__ == "__main__":
    main()
