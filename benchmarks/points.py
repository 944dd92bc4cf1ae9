"""How busy the places of a sweep inside one job are (`sweep.nodes`), beside GNU parallel and HyperQueue on this machine.

    python benchmarks/points.py [--points N] [--seconds S] [--places P] [--rounds R] [--hyperqueue PYTHON]

Each way runs the same points: a program that notes the time, sleeps, and notes it again. The ways take turns in random order,
so that a busy machine disturbs all alike; those whose program is not found are left out. `busy` is the part of the time from
the first begin to the last end in which the places ran a program. `gap` is the median time from an end to the next begin: the
begin that follows those of the first places belongs to the first end, and so on. `CPU` is what all processes of a way, also
daemons, have computed for each point: unlike the gap it hardly depends on what else the machine does. `against` has for dlrun's
time from the first begin to the last end, divided by that of the other way in the same round, the median and the range. With
the goals: for points of 10 s at least 95 % and at most 0.3 s.

The programs sleep, so that there can be more places than cores; what a way itself computes takes time from nobody then, unless
the machine is busy: the load before each round is printed.
"""

import argparse
import ctypes
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

TASK = """#!/bin/bash
# NUMBER: one point
begun=$EPOCHREALTIME
sleep "$SECONDS_OF_A_POINT"
printf '%s %s\\n' "$begun" "$EPOCHREALTIME" >"$NOTES/$1"
"""
SITE = "name: here\nscheduler: {type: local}\nlauncher: {name: local}\nrendezvous: {address: loopback}\n"
SPEC = """\
name: points
site: ./site.yaml
command: [bash, {task}, "{{{{ x }}}}"]
placement: {{bind: none}}
resources: {{ranks_per_node: 1, walltime: 2h}}
sweep: {{nodes: 1, points_per_node: {places}, x: [{points}]}}
"""


HYPERQUEUE = """
import sys
from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig
from pathlib import Path
directory, task, points, places = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
Path(directory).mkdir()
with LocalCluster(directory, WorkerConfig(cores=places)) as cluster:
    client, job = cluster.client(), Job()
    for number in range(points):
        job.program(["bash", task, str(number)], stdout=None, stderr=None)
    client.wait_for_jobs([client.submit(job)])
"""
"""Its Python package has a server and a worker in one process."""


def by_dlrun(place: Path, task: Path, points: int, places: int, dlrun: str) -> None:
    """One job that runs all points."""
    (place / "site.yaml").write_text(SITE)
    numbers = ", ".join(map(str, range(points)))
    (place / "spec.yaml").write_text(SPEC.format(task=task, places=places, points=numbers))
    environment = {**os.environ, "DLRUN_JOBS": str(place / "jobs")}
    words = [dlrun, "submit", "spec.yaml", "--wait", "--parsable"]
    subprocess.run(words, cwd=place, env=environment, check=True, stdout=subprocess.DEVNULL)


def by_parallel(place: Path, task: Path, points: int, places: int, parallel: str) -> None:
    """GNU parallel with so many jobs at a time."""
    numbers = "".join(f"{number}\n" for number in range(points))
    words = [parallel, "--will-cite", "-j", str(places), "bash", str(task), "{}"]
    subprocess.run(words, cwd=place, input=numbers, text=True, check=True)


def by_hyperqueue(place: Path, task: Path, points: int, places: int, python: str) -> None:
    """A server and a worker with so many cores of HyperQueue, and one job with a task for each point."""
    words = [python, "-c", HYPERQUEUE, str(place / "server"), str(task), str(points), str(places)]
    subprocess.run(words, cwd=place, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


WAYS = {"dlrun": by_dlrun, "parallel": by_parallel, "hyperqueue": by_hyperqueue}


PR_SET_CHILD_SUBREAPER = 36
"""Processes whose parents are gone become children of this one: linux/prctl.h."""


def computed() -> float:
    """The CPU seconds of all processes below this one that have ended; waits for those that are about to."""
    with suppress(ChildProcessError):
        while True:
            os.wait()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(notes: Path, points: int, places: int) -> tuple[float, float, float]:
    """The part of the time in which the places were busy, the median gap in seconds, and the whole time in seconds."""
    spans = [tuple(map(float, path.read_text().split())) for path in notes.iterdir()]
    if len(spans) != points:
        sys.exit(f"{len(spans)} of {points} points came to their end")
    begins, ends = sorted(begin for begin, _ in spans), sorted(end for _, end in spans)
    whole = ends[-1] - begins[0]
    gaps = [begin - end for begin, end in zip(begins[places:], ends, strict=False)]
    return sum(end - begin for begin, end in spans) / (places * whole), statistics.median(gaps), whole


def main() -> None:
    """Run all ways in turn, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--places", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--hyperqueue", metavar="PYTHON", help="a Python with the package hyperqueue")
    chosen = parser.parse_args()
    if chosen.points <= chosen.places:
        parser.error("there have to be more points than places")
    own = Path(sys.executable).parent / "dlrun"
    programs = {"dlrun": str(own), "parallel": shutil.which("parallel"), "hyperqueue": chosen.hyperqueue}
    found = {name: program for name, program in programs.items() if program is not None}
    print(f"left out: {', '.join(sorted({*programs} - {*found})) or 'none'}; {os.cpu_count()} cores")
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    results: dict[str, list[tuple[float, float, float, float]]] = {name: [] for name in found}
    for number in range(chosen.rounds):
        print(f"round {number + 1}: load {os.getloadavg()[0]:.1f}", flush=True)
        for name in random.sample([*found], len(found)):
            with tempfile.TemporaryDirectory(prefix="points-") as directory:
                place = Path(directory)
                (place / "notes").mkdir()
                (place / "task.sh").write_text(TASK)
                os.environ |= {"NOTES": str(place / "notes"), "SECONDS_OF_A_POINT": str(chosen.seconds)}
                before = computed()
                WAYS[name](place, place / "task.sh", chosen.points, chosen.places, found[name])
                used = (computed() - before) / chosen.points
                results[name].append((*measure(place / "notes", chosen.points, chosen.places), used))
    print(f"{chosen.points} points of {chosen.seconds} s on {chosen.places} places")
    print(f"{'':10} {'busy':>6} {'gap':>9} {'time':>8} {'CPU':>7}  against")
    for name, runs in results.items():
        busy, gap, whole, used = (statistics.median(column) for column in zip(*runs, strict=True))
        pairs = sorted(mine[2] / other[2] for mine, other in zip(results["dlrun"], runs, strict=True))
        against = (
            f"{statistics.median(pairs):.3f} ({pairs[0]:.3f} to {pairs[-1]:.3f})" if name != "dlrun" else ""
        )
        print(f"{name:10} {busy:6.1%} {gap * 1000:6.0f} ms {whole:6.1f} s {used * 1000:4.0f} ms  {against}")


if __name__ == "__main__":
    main()
