"""Fit a linear model with Keras' model.fit on several hosts; print a digest of the parameters."""

import argparse
import hashlib
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf


class Progress(tf.keras.callbacks.Callback):
    """Print the progress of the training."""

    def on_epoch_end(self, epoch, logs=None):
        if epoch % 10 == 0:
            print(f"step {epoch} loss {logs['loss']:.5f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    rank, world = strategy.cluster_resolver.task_id, strategy.num_replicas_in_sync

    inputs = np.random.RandomState(0).rand(512, 16).astype("float32")
    targets = inputs.sum(1, keepdims=True)
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Input((16,)), tf.keras.layers.Dense(1)])
        model.compile(tf.keras.optimizers.SGD(0.05), "mse")
    history = model.fit(
        inputs,
        targets,
        epochs=options.steps,
        batch_size=512,
        shuffle=False,
        verbose=0,
        callbacks=[Progress()],
    )
    losses = history.history["loss"]

    values = b"".join(weight.tobytes() for weight in model.get_weights())
    print(f"rank {rank} of {world} on {os.uname().nodename}, {tf.keras.__name__}")
    print(
        f"loss {losses[0]:.5f} -> {losses[-1]:.5f}, parameters {hashlib.sha256(values).hexdigest()[:12]}",
        flush=True,
    )


if __name__ == "__main__":
    main()
