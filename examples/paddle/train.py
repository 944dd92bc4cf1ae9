"""Fit a linear model by data-parallel SGD with PaddlePaddle; print a digest of the parameters."""

import argparse
import hashlib
import os

import numpy as np
import paddle
import paddle.distributed as dist


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    if not paddle.device.is_compiled_with_cuda():
        paddle.set_device("cpu")
    dist.init_parallel_env()
    rank, world = dist.get_rank(), dist.get_world_size()

    inputs = np.random.RandomState(0).rand(512, 16).astype("float32")
    targets = inputs.sum(1, keepdims=True)
    inputs, targets = paddle.to_tensor(inputs[rank::world]), paddle.to_tensor(targets[rank::world])
    paddle.seed(rank)  # replicas differ at first: DataParallel makes them equal
    model = paddle.DataParallel(paddle.nn.Linear(16, 1))
    optimizer = paddle.optimizer.SGD(0.05, parameters=model.parameters())

    losses = []
    for step in range(options.steps):
        loss = ((model(inputs) - targets) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
        if step % 10 == 0:
            print(f"step {step} loss {losses[-1]:.5f}", flush=True)

    values = b"".join(p.numpy().tobytes() for p in model.parameters())
    print(f"rank {rank} of {world} on {os.uname().nodename}")
    print(
        f"loss {losses[0]:.5f} -> {losses[-1]:.5f}, parameters {hashlib.sha256(values).hexdigest()[:12]}",
        flush=True,
    )


if __name__ == "__main__":
    main()
