"""HyperOpt's tree of Parzen estimators proposes, dlrun runs: python with_hyperopt.py SPEC --trials 8 --at-once 2"""

import argparse

import numpy as np
from hyperopt import JOB_STATE_DONE, STATUS_FAIL, STATUS_OK, Trials, hp, space_eval, tpe
from hyperopt.base import Domain
from trials import run

SPACE = {
    "lr": hp.loguniform("lr", np.log(0.01), np.log(1.0)),
    "batch": hp.choice("batch", [16, 32, 64]),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("spec")
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--at-once", type=int, default=2, help="trials of one job array")
    parser.add_argument("--seed", type=int, default=0)
    options, more = parser.parse_known_args()

    trials, domain = Trials(), Domain(None, SPACE)
    for start in range(0, options.trials, options.at_once):
        count = min(options.at_once, options.trials - start)
        proposed = tpe.suggest(trials.new_trial_ids(count), domain, trials, seed=options.seed + start)
        points = [
            space_eval(SPACE, {name: value[0] for name, value in one["misc"]["vals"].items()})
            for one in proposed
        ]
        for one, value in zip(proposed, run(options.spec, points, options=more), strict=True):
            one["state"] = JOB_STATE_DONE
            one["result"] = (
                {"status": STATUS_FAIL} if value is None else {"status": STATUS_OK, "loss": -value}
            )
        trials.insert_trial_docs(proposed)
        trials.refresh()
    best = space_eval(SPACE, trials.argmin)
    print(
        f"best of {len(trials)}: accuracy {-min(x for x in trials.losses() if x is not None):.4f} with {best}"
    )


if __name__ == "__main__":
    main()
