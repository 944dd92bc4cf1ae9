"""Try learning rates with Ray Tune, each trial on its own node as long as nodes are free."""

import argparse

import ray
from ray import tune


def trial(config):
    import os

    import torch

    random = torch.Generator().manual_seed(0)
    inputs = torch.rand(512, 16, generator=random)
    targets = inputs.sum(1, keepdim=True)
    torch.manual_seed(0)
    model = torch.nn.Linear(16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"])
    losses = []
    for _ in range(config["steps"]):
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    tune.report({"first": losses[0], "loss": losses[-1], "host": os.uname().nodename})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--cpus", type=int, default=1, help="of each trial")
    parser.add_argument("--storage", default="/tmp/ray-results")
    options = parser.parse_args()
    ray.init()  # RAY_ADDRESS is the address of the head
    rates = [0.02, 0.04, 0.06, 0.08]
    tuner = tune.Tuner(
        tune.with_resources(trial, {"cpu": options.cpus}),
        param_space={"lr": tune.grid_search(rates), "steps": options.steps},
        tune_config=tune.TuneConfig(metric="loss", mode="min"),
        run_config=tune.RunConfig(storage_path=options.storage, verbose=1),
    )
    results = list(tuner.fit())
    for number, result in enumerate(results):
        found = result.metrics
        print(f"trial {number} of {len(rates)} on {found['host']}: lr {found['config']['lr']}")
        print(f"loss {found['first']:.5f} -> {found['loss']:.5f}", flush=True)
    print("nodes:", *sorted({result.metrics["host"] for result in results}))


if __name__ == "__main__":
    main()
