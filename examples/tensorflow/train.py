"""Fit a linear model under MultiWorkerMirroredStrategy, with a training loop; print a digest of the parameters."""

import argparse
import hashlib
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    ring = tf.distribute.experimental.CommunicationImplementation.RING
    communication = tf.distribute.experimental.CommunicationOptions(implementation=ring)
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=communication)
    rank, world = strategy.cluster_resolver.task_id, strategy.num_replicas_in_sync

    inputs = np.random.RandomState(0).rand(512, 16).astype("float32")
    targets = inputs.sum(1, keepdims=True)
    inputs, targets = inputs[rank::world], targets[rank::world]
    with strategy.scope():
        weights = tf.Variable(tf.zeros([16, 1]))

    def replica_step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((inputs @ weights - targets) ** 2)
        everyone = tf.distribute.get_replica_context()
        gradient = everyone.all_reduce(tf.distribute.ReduceOp.MEAN, tape.gradient(loss, weights))
        weights.assign_sub(0.05 * gradient)
        return loss

    @tf.function
    def train_step():
        return strategy.run(replica_step)

    losses = []
    for step in range(options.steps):
        losses.append(float(train_step()))
        if step % 10 == 0:
            print(f"step {step} loss {losses[-1]:.5f}", flush=True)

    digest = hashlib.sha256(weights.numpy().tobytes()).hexdigest()[:12]
    print(f"rank {rank} of {world} on {os.uname().nodename}")
    print(f"loss {losses[0]:.5f} -> {losses[-1]:.5f}, parameters {digest}", flush=True)


if __name__ == "__main__":
    main()
