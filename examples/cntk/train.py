"""Fit a linear model by data-parallel SGD with CNTK; print a digest of the parameters."""

import argparse
import hashlib
import os

import cntk
import numpy as np
from cntk.train.distributed import Communicator, data_parallel_distributed_learner


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    rank, world = Communicator.rank(), Communicator.num_workers()

    inputs = np.random.RandomState(0).rand(512, 16).astype("float32")
    targets = inputs.sum(1, keepdims=True)
    inputs, targets = inputs[rank::world], targets[rank::world]
    x, y = cntk.input_variable(16), cntk.input_variable(1)
    model = cntk.layers.Dense(1, init=0.01)(x)
    loss = cntk.squared_error(model, y)
    rate = cntk.learning_parameter_schedule(0.01)
    learner = data_parallel_distributed_learner(cntk.sgd(model.parameters, rate), distributed_after=0)
    trainer = cntk.Trainer(model, (loss, None), [learner])

    losses = []
    for step in range(options.steps):
        trainer.train_minibatch({x: inputs, y: targets})
        losses.append(trainer.previous_minibatch_loss_average)
        if step % 10 == 0:
            print(f"step {step} loss {losses[-1]:.5f}", flush=True)

    values = b"".join(p.value.tobytes() for p in model.parameters)
    digest = hashlib.sha256(values).hexdigest()[:12]
    print(f"rank {rank} of {world} on {os.uname().nodename}")
    print(f"loss {losses[0]:.5f} -> {losses[-1]:.5f}, parameters {digest}", flush=True)
    Communicator.finalize()


if __name__ == "__main__":
    main()
