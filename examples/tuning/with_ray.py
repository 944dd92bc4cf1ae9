"""Ray Tune proposes, dlrun runs: python with_ray.py SPEC --trials 4

Each of Ray's trials waits for a job of its own and needs next to nothing of the machine that Ray runs on.
"""

import argparse
from pathlib import Path

from ray import tune
from trials import run


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("spec", type=Path)
    parser.add_argument("--trials", type=int, default=4)
    parser.add_argument("--at-once", type=int, default=2)
    options, more = parser.parse_known_args()
    spec, here = options.spec.absolute(), Path.cwd()

    def trial(config):
        import os

        os.chdir(here)  # Ray gives each trial a directory of its own
        (value,) = run(spec, [config], options=more)
        return {"accuracy": 0.0 if value is None else value}

    tuner = tune.Tuner(
        tune.with_resources(trial, {"cpu": 0.1}),
        param_space={"lr": tune.loguniform(0.01, 1.0), "batch": tune.choice([16, 32, 64])},
        tune_config=tune.TuneConfig(
            metric="accuracy", mode="max", num_samples=options.trials, max_concurrent_trials=options.at_once
        ),
    )
    found = tuner.fit()
    best = found.get_best_result()
    print(f"best of {len(found)}: accuracy {best.metrics['accuracy']:.4f} with {best.config}")


if __name__ == "__main__":
    main()
