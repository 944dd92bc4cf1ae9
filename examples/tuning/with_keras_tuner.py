"""Keras Tuner's Bayesian optimisation proposes, dlrun runs: python with_keras_tuner.py SPEC --trials 4"""

import argparse

import keras_tuner
from trials import run


class JobTuner(keras_tuner.engine.base_tuner.BaseTuner):
    """A tuner whose trials are jobs: no model is built here."""

    def run_trial(self, trial, spec, options):
        values = {
            "lr": trial.hyperparameters.Float("lr", 0.01, 1.0, sampling="log"),
            "batch": trial.hyperparameters.Choice("batch", [16, 32, 64]),
        }
        (value,) = run(spec, [values], options=options)
        return {"accuracy": 0.0 if value is None else value}

    def save_model(self, trial_id, model, step=0):
        """Nothing to save: the job has its own model."""

    def load_model(self, trial):
        """Nothing to load: no model is built here."""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("spec")
    parser.add_argument("--trials", type=int, default=4)
    options, more = parser.parse_known_args()
    oracle = keras_tuner.oracles.BayesianOptimizationOracle(
        objective=keras_tuner.Objective("accuracy", "max"), max_trials=options.trials, seed=0
    )
    tuner = JobTuner(oracle=oracle, directory="keras-tuner", project_name="search", overwrite=True)
    tuner.search(options.spec, more)
    (best,) = tuner.oracle.get_best_trials(1)
    print(f"best of {options.trials}: accuracy {best.score:.4f} with {best.hyperparameters.values}")


if __name__ == "__main__":
    main()
