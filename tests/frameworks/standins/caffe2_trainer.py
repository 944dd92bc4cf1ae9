"""Stands in for Caffe2's resnet50_trainer.py: shards that meet in a directory, and exchange gradients through it."""

import argparse
import hashlib
import os
import time
from pathlib import Path

import numpy as np


def main():
    parser = argparse.ArgumentParser()
    for name in ("train_data", "run_id", "file_store_path", "distributed_interfaces"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("num_shards", "shard_id"):
        parser.add_argument(f"--{name}", type=int, required=True)
    options = parser.parse_args()
    rank, world = options.shard_id, options.num_shards
    store = Path(options.file_store_path) / f"store-{options.run_id}"
    store.mkdir(exist_ok=True)

    inputs = np.random.RandomState(0).rand(512, 16)
    targets = inputs.sum(1)
    inputs, targets = inputs[rank::world], targets[rank::world]
    weights, losses = np.zeros(16), []
    for step in range(int(os.environ.get("STANDIN_STEPS", "30"))):
        error = inputs @ weights - targets
        losses.append(float(np.mean(error**2)))
        mine = store / f"{step}-{rank}"
        mine.with_suffix(".new").write_bytes((2 * inputs.T @ error / len(targets)).tobytes())
        mine.with_suffix(".new").rename(mine)
        weights -= 0.05 * sum(gradient(store / f"{step}-{other}") for other in range(world)) / world
        if step % 10 == 0:
            print(f"step {step} loss {losses[-1]:.5f}", flush=True)
    digest = hashlib.sha256(weights.tobytes()).hexdigest()[:12]
    print(f"rank {rank} of {world} on {os.uname().nodename}")
    print(f"loss {losses[0]:.5f} -> {losses[-1]:.5f}, parameters {digest}", flush=True)


def gradient(path):
    """What a shard has put there; it is waited for."""
    while not path.exists():
        time.sleep(0.002)
    return np.frombuffer(path.read_bytes())


main()
