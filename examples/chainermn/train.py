"""Fit a linear model by data-parallel SGD with ChainerMN; print a digest of the parameters."""

import argparse
import hashlib
import os

import chainer
import chainermn
import numpy as np


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    everyone = chainermn.create_communicator("naive")
    rank, world = everyone.rank, everyone.size

    inputs = np.random.RandomState(0).rand(512, 16).astype("float32")
    targets = inputs.sum(1, keepdims=True)
    inputs, targets = inputs[rank::world], targets[rank::world]
    model = chainer.links.Linear(16, 1)
    optimizer = chainermn.create_multi_node_optimizer(chainer.optimizers.SGD(0.05), everyone)
    optimizer.setup(model)  # the first update copies the parameters of rank 0 to all replicas

    losses = []
    for step in range(options.steps):
        loss = chainer.functions.mean_squared_error(model(inputs), targets)
        model.cleargrads()
        loss.backward()
        optimizer.update()
        losses.append(float(loss.array))
        if step % 10 == 0:
            print(f"step {step} loss {losses[-1]:.5f}", flush=True)

    values = b"".join(p.array.tobytes() for p in model.params())
    print(f"rank {rank} of {world} on {os.uname().nodename}")
    print(
        f"loss {losses[0]:.5f} -> {losses[-1]:.5f}, parameters {hashlib.sha256(values).hexdigest()[:12]}",
        flush=True,
    )


if __name__ == "__main__":
    main()
