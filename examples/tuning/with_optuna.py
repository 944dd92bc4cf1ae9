"""Optuna proposes and prunes, dlrun runs: python with_optuna.py SPEC --trials 8 --at-once 2

Each trial is a job. While it runs, its log is read for a value that tells how it goes; a trial that the pruner gives up is
cancelled, and the next one begins.
"""

import argparse
import re
from pathlib import Path

import optuna

from dlrun import api


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("spec", type=Path)
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--at-once", type=int, default=2, help="jobs that are pending or running at a time")
    parser.add_argument("--site", help="the site profile; default: as for dlrun submit")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--progress", default=r"loss\s+([0-9.]+)", help="a value in the log that should decrease"
    )
    options = parser.parse_args()

    def objective(trial):
        point = {
            "lr": trial.suggest_float("lr", 0.01, 1.0, log=True),
            "batch": trial.suggest_categorical("batch", [16, 32, 64]),
        }
        texts = {name: str(value) for name, value in point.items()}
        job = api.submit(options.spec, site=options.site, sweep={"list": [texts]})
        try:
            follow(trial, job, re.compile(options.progress))
        except BaseException:  # pruned, Ctrl-C, or the scheduler does not answer: leave no job behind
            job.cancel()
            raise
        (result,) = job.results()
        if result["state"] != "completed":
            print(f"trial {trial.number} failed: {job.why()[0].means}")
        return result.get("accuracy")  # None is a failed trial

    # Until some trials have ended there is nothing to compare with; within a trial, two values may be noise.
    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=options.seed),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=2, n_warmup_steps=2),
    )
    study.optimize(objective, n_trials=options.trials, n_jobs=options.at_once)
    pruned = sum(one.state == optuna.trial.TrialState.PRUNED for one in study.trials)
    best = study.best_trial
    print(f"best of {len(study.trials)}: accuracy {best.value:.4f} with {best.params}; {pruned} were pruned")


def follow(trial, job, progress):
    """Report each value of a running job's log; raises TrialPruned."""
    step = 0
    for line in job.tail(0):
        if found := progress.search(line):
            trial.report(-float(found[1]), step)  # as the metric, more is better
            step += 1
            if trial.should_prune():
                raise optuna.TrialPruned


if __name__ == "__main__":
    main()
