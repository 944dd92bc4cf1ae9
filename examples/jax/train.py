"""Fit a linear model by data-parallel SGD with JAX on several hosts; print a digest of the parameters."""

import argparse
import hashlib
import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.multihost_utils import host_local_array_to_global_array
from jax.sharding import Mesh, NamedSharding, PartitionSpec


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rank", type=int)
    parser.add_argument("--world", type=int)
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    # JAX_COORDINATOR_ADDRESS has the rendezvous; the process id must be passed to JAX.
    jax.distributed.initialize(num_processes=options.world, process_id=options.rank)
    rank, world = jax.process_index(), jax.process_count()

    mesh = Mesh(np.array(jax.devices()), ("data",))
    inputs = np.random.RandomState(0).rand(512, 16).astype("float32")
    targets = inputs.sum(1, keepdims=True)
    split = PartitionSpec("data")
    inputs = host_local_array_to_global_array(inputs[rank::world], mesh, split)
    targets = host_local_array_to_global_array(targets[rank::world], mesh, split)
    weights = jax.device_put(np.zeros((16, 1), "float32"), NamedSharding(mesh, PartitionSpec()))

    @jax.jit
    def train_step(weights, inputs, targets):
        def loss(weights):
            return jnp.mean((inputs @ weights - targets) ** 2)

        value, gradient = jax.value_and_grad(loss)(weights)
        return value, weights - 0.05 * gradient

    losses = []
    for step in range(options.steps):
        value, weights = train_step(weights, inputs, targets)
        losses.append(float(value))
        if step % 10 == 0:
            print(f"step {step} loss {losses[-1]:.5f}", flush=True)

    digest = hashlib.sha256(np.asarray(weights.addressable_data(0)).tobytes()).hexdigest()[:12]
    print(f"rank {rank} of {world} on {os.uname().nodename}, {jax.device_count()} devices")
    print(f"loss {losses[0]:.5f} -> {losses[-1]:.5f}, parameters {digest}", flush=True)


if __name__ == "__main__":
    main()
