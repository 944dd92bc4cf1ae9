"""Fit a linear model with Mesh TensorFlow, its batch split over servers on all hosts; the chief drives."""

import argparse
import json
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import mesh_tensorflow as mtf
import numpy as np
import tensorflow.compat.v1 as tf


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    tf.logging.set_verbosity(tf.logging.ERROR)
    config = json.loads(os.environ["TF_CONFIG"])
    task = config["task"]
    place = "{} {} on {}".format(task["type"], task["index"], os.uname()[1])
    server = tf.train.Server(
        tf.train.ClusterSpec(config["cluster"]), job_name=task["type"], task_index=task["index"]
    )
    if task["type"] == "worker":
        print(place, "serves", flush=True)
        server.join()  # never returns: dlrun ends it after the chief

    world = len(config["cluster"]["worker"])
    values = np.random.RandomState(0).rand(512, 16).astype("float32")
    mesh = mtf.Mesh(mtf.Graph(), "mesh")
    batch, features = mtf.Dimension("batch", 512), mtf.Dimension("features", 16)
    inputs = mtf.import_tf_tensor(mesh, tf.constant(values), [batch, features])
    targets = mtf.import_tf_tensor(mesh, tf.constant(values.sum(1)), [batch])
    weights = mtf.get_variable(mesh, "weights", [features], initializer=tf.zeros_initializer())
    loss = mtf.reduce_mean(mtf.square(mtf.einsum([inputs, weights], output_shape=[batch]) - targets))
    (gradient,) = mtf.gradients([loss], [weights])
    update = mtf.assign(weights, weights - 0.05 * gradient)
    devices = [f"/job:worker/task:{i}/device:CPU:0" for i in range(world)]
    placement = mtf.placement_mesh_impl.PlacementMeshImpl(f"rows:{world}", "batch:rows", devices)
    lowering = mtf.Lowering(mesh.graph, {mesh: placement})
    train_step = lowering.lowered_operation(update)
    value = tf.to_float(lowering.export_to_tf_tensor(loss))

    losses = []
    with tf.Session(server.target) as session:
        session.run(tf.global_variables_initializer())
        session.run(lowering.copy_masters_to_slices())
        for step in range(options.steps):
            losses.append(float(session.run([train_step, value])[1]))
            if step % 10 == 0:
                print(f"step {step} loss {losses[-1]:.5f}", flush=True)
    print(place, "drove a mesh of", world)
    print(f"loss {losses[0]:.5f} -> {losses[-1]:.5f}", flush=True)
    os._exit(0)  # tf.train.Server cannot be stopped


if __name__ == "__main__":
    main()
