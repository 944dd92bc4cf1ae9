"""Trials of a hyperparameter search as dlrun jobs: from parameters to a metric.

A search library proposes parameters; `run` makes them the points of a sweep, so that any number of proposals is one
job array, waits for its end, and reads the metric that the spec names. It needs nothing but the `dlrun` program.
"""

import json
import subprocess


def run(spec, points, metric="accuracy", options=()):
    """Run each of `points` (dictionaries of parameters); returns the metric of each, None for a trial that failed.

    `options` are further options of `dlrun submit`, such as `["--site", "mycluster"]`.
    """
    texts = [{name: str(value) for name, value in point.items()} for point in points]
    sweep = f"sweep.list={json.dumps(texts)}"  # JSON is YAML
    submit = ["dlrun", "submit", str(spec), "--set", sweep, "--wait", "--json", *options]
    # With --wait the exit code is that of the job.
    ended = subprocess.run(submit, stdout=subprocess.PIPE, text=True, check=False)
    if not ended.stdout:
        raise SystemExit(f"nothing was submitted (exit code {ended.returncode})")
    job = json.loads(ended.stdout)["job"]
    shown = subprocess.run(
        ["dlrun", "results", job["directory"], "--json"], stdout=subprocess.PIPE, text=True, check=True
    )
    found = []
    for result in json.loads(shown.stdout)["results"]:
        reading = result["metrics"].get(metric)
        found.append(reading["value"] if reading and result["state"] == "completed" else None)
    return found
