"""Fit a linear model by synchronous SGD on Spark: the driver sends weights, executors return gradients."""

import argparse
import os

import numpy as np
from pyspark.sql import SparkSession


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    session = SparkSession.builder.appName("train").getOrCreate()
    context = session.sparkContext

    inputs = np.random.RandomState(0).rand(512, 16)
    targets = inputs.sum(1)
    samples = context.parallelize(list(zip(inputs, targets, strict=True)), options.workers).cache()
    hosts = samples.mapPartitions(lambda _: [os.uname().nodename]).collect()

    def partial(part, weights):
        part = list(part)
        x, y = np.array([s[0] for s in part]), np.array([s[1] for s in part])
        error = x @ weights - y
        return [(2 * x.T @ error, float(error @ error), len(part))]

    weights, losses = np.zeros(16), []
    for step in range(options.steps):
        sent = context.broadcast(weights)
        gradient, loss, count = samples.mapPartitions(
            lambda part, sent=sent: partial(part, sent.value)
        ).reduce(lambda a, b: tuple(p + q for p, q in zip(a, b, strict=True)))
        weights = weights - 0.05 * gradient / count
        losses.append(loss / count)
        if step % 10 == 0:
            print(f"step {step} loss {losses[-1]:.5f}", flush=True)
    print("partitions on", *sorted(hosts))
    print(f"loss {losses[0]:.5f} -> {losses[-1]:.5f}", flush=True)
    session.stop()


if __name__ == "__main__":
    main()
