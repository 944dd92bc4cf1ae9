"""Fit a linear model by data-parallel SGD over MPI, with NumPy only; print a digest of the parameters."""

import argparse
import hashlib
import os

import numpy as np
from mpi4py import MPI


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    everyone = MPI.COMM_WORLD
    rank, world = everyone.rank, everyone.size

    inputs = np.random.RandomState(0).rand(512, 16)
    targets = inputs.sum(1)
    inputs, targets = inputs[rank::world], targets[rank::world]
    weights, gradient, losses = np.zeros(16), np.empty(16), []
    for step in range(options.steps):
        error = inputs @ weights - targets
        losses.append(float(np.mean(error**2)))
        everyone.Allreduce(2 * inputs.T @ error / len(targets), gradient)
        weights -= 0.05 * gradient / world
        if step % 10 == 0:
            print(f"step {step} loss {losses[-1]:.5f}", flush=True)

    digest = hashlib.sha256(weights.tobytes()).hexdigest()[:12]
    library = MPI.Get_library_version().splitlines()[0]
    print(f"rank {rank} of {world} on {os.uname().nodename}, {library}")
    print(f"loss {losses[0]:.5f} -> {losses[-1]:.5f}, parameters {digest}", flush=True)


if __name__ == "__main__":
    main()
