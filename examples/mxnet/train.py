"""Fit a linear model through MXNet's parameter servers, synchronously or not; print a digest of the parameters.

Scheduler and servers run this program too: in them `import mxnet` never returns, and ends with the workers.
"""

import argparse
import hashlib
import os

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--store", default="dist_sync", choices=["dist_sync", "dist_device_sync", "dist_async"]
    )
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    store = mx.kv.create(options.store)
    rank, world = store.rank, store.num_workers

    inputs = np.random.RandomState(0).rand(512, 16).astype("float32")
    targets = inputs.sum(1, keepdims=True)
    inputs, targets = nd.array(inputs[rank::world]), nd.array(targets[rank::world])
    model = gluon.nn.Dense(1, in_units=16)
    model.initialize(mx.init.Normal(0.01))
    trainer = gluon.Trainer(model.collect_params(), "sgd", {"learning_rate": 0.02}, kvstore=store)

    losses = []
    for step in range(options.steps):
        with autograd.record():
            loss = gluon.loss.L2Loss()(model(inputs), targets)
        loss.backward()
        trainer.step(len(inputs) * world)
        losses.append(float(loss.mean().asscalar()))
        if step % 10 == 0:
            print(f"step {step} loss {losses[-1]:.5f}", flush=True)

    values = b"".join(p.data().asnumpy().tobytes() for p in model.collect_params().values())
    print(f"worker {rank} of {world} on {os.uname().nodename}")
    print(
        f"loss {losses[0]:.5f} -> {losses[-1]:.5f}, parameters {hashlib.sha256(values).hexdigest()[:12]}",
        flush=True,
    )


main()
