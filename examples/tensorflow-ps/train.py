"""Fit a linear model under ParameterServerStrategy: the chief schedules steps; workers and servers run the same program."""

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["GRPC_FAIL_FAST"] = "use_caller"  # workers may start before their servers
import numpy as np
import tensorflow as tf


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    place = f"{resolver.task_type} {resolver.task_id} on {os.uname().nodename}"
    if resolver.task_type in ("worker", "ps"):
        print(place, "serves", flush=True)
        # A server with fewer threads than workers can deadlock.
        config = tf.compat.v1.ConfigProto()
        config.inter_op_parallelism_threads = max(
            os.cpu_count(), resolver.cluster_spec().num_tasks("worker") + 1
        )
        server = tf.distribute.Server(
            resolver.cluster_spec(),
            job_name=resolver.task_type,
            task_index=resolver.task_id,
            protocol="grpc",
            config=config,
        )
        server.join()  # never returns: dlrun ends it after the chief
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        weights = tf.Variable(tf.zeros([16, 1]))
    values = np.random.RandomState(0).rand(512, 16).astype("float32")
    inputs, targets = tf.constant(values), tf.constant(values.sum(1, keepdims=True))

    def replica_step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((inputs @ weights - targets) ** 2)
        weights.assign_sub(0.05 * tape.gradient(loss, weights))
        return loss

    @tf.function
    def train_step():
        return strategy.run(replica_step)

    losses = []
    for step in range(0, options.steps, 10):
        done = [coordinator.schedule(train_step) for _ in range(10)]
        coordinator.join()
        losses += [float(value.fetch()) for value in done]
        print(f"step {step} loss {losses[-1]:.5f}", flush=True)
    print(place, "keeps its parameters on", weights.device)
    print(f"loss {losses[0]:.5f} -> {losses[-1]:.5f}", flush=True)


if __name__ == "__main__":
    main()
