"""Train a small network with H2O Deep Learning on all nodes of the job."""

import argparse
import math
import os
import random

import h2o
from h2o.estimators import H2ODeepLearningEstimator


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=10, help="epochs")
    options = parser.parse_args()
    h2o.connect(url=os.environ["H2O_URL"], verbose=False)
    print("cloud of", h2o.cluster().cloud_size, flush=True)

    random.seed(0)
    rows = [[random.random() for _ in range(8)] for _ in range(2000)]
    rows = [[*row, "a" if sum(row) > 4 else "b"] for row in rows]
    frame = h2o.H2OFrame(rows, column_names=[f"c{i}" for i in range(8)] + ["y"])
    frame["y"] = frame["y"].asfactor()
    print("step 10 is an epoch here", flush=True)
    model = H2ODeepLearningEstimator(
        hidden=[16],
        epochs=options.steps,
        seed=1,
        score_interval=0,
        stopping_rounds=0,
        overwrite_with_best_model=False,
    )
    model.train(y="y", training_frame=frame)
    table = model._model_json["output"]["scoring_history"]  # noqa: SLF001 - without pandas there is no other way
    column = table.col_header.index("training_logloss")
    losses = [float(row[column]) for row in table.cell_values]
    losses = [loss for loss in losses if not math.isnan(loss)]
    print(f"AUC {model.auc():.4f}")
    print(f"loss {losses[0]:.5f} -> {losses[-1]:.5f}", flush=True)


if __name__ == "__main__":
    main()
