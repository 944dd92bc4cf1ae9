"""`dlrun tune` compared with a search of all combinations, on three real trainings on this machine.

    python benchmarks/tune.py [--workload loader,features,ddp] [--repeat N] [--fresh N] [--keep DIRECTORY --within SECONDS]

Both use the same settings and the same trials. The search runs every combination N times, in turn; its best combination is
the one with the best median. Then that one, the setting that `tune` found and the unchanged plan are run again, `--fresh`
times in turn: `found / best` is from these runs, `cost` is the ratio of the seconds of the trials. Budget: 3 % and a third.

All three take about half an hour. With `--keep`, measurements are stored in that directory, and `--within` ends the program
after so many seconds; the same command continues until the table is complete (exit code 3: it is not yet).
"""

import argparse
import itertools
import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

from dlrun.trials.tune import begin, record as tuning, run as race
from dlrun.trials.tune.candidates import Candidate
from dlrun.trials.tune.race import Next, values, verdict

PROGRAMS = Path(__file__).with_name("tune_workloads")
SITE = "name: here\nscheduler: {type: local}\nlauncher: {name: local}\nrendezvous: {address: loopback}\n"
WORKLOADS = {
    "loader": ({"workers": "1 2 4 8", "prefetch": "1 2 4", "read": "1 2 4"}, {"ranks_per_node": 1}),
    "features": (
        {
            "chunk": "32768 4096 256 16", "in_place": "0 1", "placement.threads": "1",
            "environment.variables.GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
        },
        {"ranks_per_node": 1},
    ),
    "ddp": (
        {
            "bucket": "0.2 1 25", "view": "0 1", "static": "0 1", "environment.variables.MALLOC_ARENA_MAX": "1",
            "environment.variables.OMP_WAIT_POLICY": "passive",
        },
        {"ranks_per_node": 2},
    ),
}  # fmt: skip
"""Values of each setting: the first value of a parameter is that of the plan; the plan has another value for a key."""


def spec(place, name):
    """The spec of a workload."""
    settings, resources = WORKLOADS[name]
    parameters = [f"{{{{ {one} }}}}" for one in settings if "." not in one]
    command = [sys.executable, str(PROGRAMS / f"{name}.py"), *parameters]
    (place / "site.yaml").write_text(SITE)
    path = place / f"{name}.yaml"
    framework = {"framework": "torch"} if name == "ddp" else {}
    path.write_text(
        json.dumps(
            {"name": name, **framework, "command": command, "resources": resources, "site": "./site.yaml"}
        )
    )
    return path


class NotYetComplete(Exception):
    """The time of this call is over; all trials so far are stored."""


class Time:
    """The time by which this call must end."""

    def __init__(self, within):
        self._end = time.monotonic() + within if within else None
        self._longest = 0.0

    def check(self, seconds=0.0):
        """After a trial of so many seconds: raises NotYetComplete if another one may not end in time."""
        self._longest = max(self._longest, seconds)
        if self._end is not None and time.monotonic() + 1.5 * self._longest > self._end:
            raise NotYetComplete


def tuned(place, name, repeat, left):
    """Run `dlrun tune` to its end: the tuning, its trials and its verdict."""
    tries = [f"{one}={','.join(text.split())}" for one, text in WORKLOADS[name][0].items()]
    found = tuning.load(place / f"{name}-tuning")
    if found is None:
        found = begin.begin(
            spec(place, name), sets=(), site=None, tries=tries, only=True, directory=place / f"{name}-tuning",
            length=60.0, repeat=repeat, notice=sys.exit,
        )  # fmt: skip
        found = replace(found, budget=10.0)
        found.save()

    def notice(text):
        print(f"  tune {text}", file=sys.stderr, flush=True)
        left.check(max(one.seconds for one in found.trials()))

    race.run(found, notice)
    return found, found.trials(), verdict(found.candidates, found.trials())


def combinations(name, planned):
    """Every combination of the settings; the unchanged plan first."""
    settings = WORKLOADS[name][0]
    choices = [
        [*([] if one in planned.parameters else [None]), *text.split()] for one, text in settings.items()
    ]
    for chosen in itertools.product(*choices):
        given = {one: value for one, value in zip(settings, chosen, strict=True) if value is not None}
        sets = {key: value for key, value in given.items() if key not in planned.parameters}
        parameters = {key: value for key, value in given.items() if key in planned.parameters}
        yield Candidate(
            name=" ".join(f"{k}={v}" for k, v in given.items()), sets=sets, parameters=parameters, because=""
        )


def same(one, other):
    """Whether two candidates have the same settings."""
    return {**one.sets} == {**other.sets} and {**one.parameters} == {**other.parameters}


def rounds(of, stage, candidates, count, plans, left):
    """Run each candidate this many times, in turn; returns their throughputs, and the seconds of all."""
    record = of.directory / f"{stage}.jsonl"
    kept = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
    found, seconds = {one.name: [] for one in candidates}, 0.0
    for number in range(count):
        for one in candidates[:: -1 if number % 2 else 1]:
            done = next((row for row in kept if row["number"] == number and row["name"] == one.name), None)
            if done is None:
                left.check()
                done = {"number": number, "name": one.name, **measured(of, one, plans)}
                with record.open("a") as file:
                    file.write(json.dumps(done) + "\n")
                left.check(done["seconds"])
            found[one.name].append(done["value"])
            seconds += done["seconds"]
    return found, seconds


def measured(of, one, plans):
    """The throughput of a trial, and its duration in seconds."""
    if one.name not in plans:
        plans[one.name] = begin.plan_of(one, of.spec, of.sets, of.site)
    done = race.run_trial(of, Next(candidate=one, stage="alone"), plans[one.name], 600.0)
    if done.value is None:
        raise SystemExit(f"{one.name}: {done.failed}")
    print(
        f"  {one.name or 'as planned'}: {done.value:.4g}, {done.seconds:.1f} s", file=sys.stderr, flush=True
    )
    return {"value": done.value, "seconds": done.seconds}


def compare(place, name, options, left):
    """One line of the table."""
    found, trials, claim = tuned(place, name, options.repeat, left)
    cost = sum(one.seconds for one in trials)
    everything = list(combinations(name, found.candidates[0]))
    plans = {}
    searched, all_cost = rounds(found, "search", everything, options.repeat, plans, left)
    best = max(everything, key=lambda one: median(searched[one.name]))
    winner = claim.winner if claim else found.candidates[0]
    mine = next(one for one in everything if same(one, winner))
    planned = next(one for one in everything if same(one, found.candidates[0]))
    shown = list({one.name: one for one in (best, mine, planned)}.values())
    fresh, _ = rounds(found, "fresh", shown, options.fresh, plans, left)
    middle = {one: median(runs) for one, runs in fresh.items()}
    print(
        f"{name:9} {len(everything):5} {options.repeat * len(everything):6} {len(trials):6} {cost / all_cost:6.2f} "
        f"{middle[mine.name] / middle[best.name]:12.3f} {median(searched[mine.name]) / median(searched[best.name]):9.3f} "
        f"{middle[mine.name] / middle[planned.name] - 1:+8.1%}   {mine.name}   (search: {best.name})",
        flush=True,
    )
    spread = max((max(runs) - min(runs)) / median(runs) for runs in fresh.values())
    claimed = (
        f"{claim.gain:+.1%}, {'claimed' if claim.sure else 'not claimed'}" if claim else "nothing faster"
    )
    print(f"{'':9} spread of the fresh runs {spread:.1%}; tune's own confirming runs: {claimed}", flush=True)
    assert values(trials, found.candidates[0].name)


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workload", default=",".join(WORKLOADS))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--fresh", type=int, default=5)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--within", type=float, metavar="SECONDS")
    options = parser.parse_args()
    left = Time(options.within)
    print("workload  combi- search   tune   cost found / best in search  against   found")
    print("          nations trials trials         fresh runs      itself      plan", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        place = options.keep.absolute() if options.keep else Path(temporary)
        place.mkdir(parents=True, exist_ok=True)
        try:
            for name in options.workload.split(","):
                compare(place, name, options, left)
        except NotYetComplete:
            raise SystemExit(3) from None


if __name__ == "__main__":
    main()
