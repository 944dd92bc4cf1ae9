"""How long a job continues after one of its processes has died, by framework family (needs root: two hosts of the tests).

    python benchmarks/ending.py [--rounds N] [CASE...]

Each case of `tests/frameworks/cases.py` trains on two hosts without end; one process is killed (SIGKILL) in the middle. Two
times are measured from the kill: until the job has ended, and until none of its processes is left on either host. The third
column is what the job itself records: from the note of the process that died to the end of the job, in whole seconds. The
goal: 15 s. The environments are those of the tests (`python -m tests.frameworks.install`); cases that are not installed are
skipped.
"""

import argparse
import json
import os
import re
import sys
import time
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.frameworks.cases import CASES  # noqa: E402
from tests.frameworks.hosts import REPOSITORY, Hosts, make_job  # noqa: E402
from tests.frameworks.install import environment, ready  # noqa: E402

GOAL = 15
USUAL = (
    "mpi-openmpi", "chainermn", "torch", "torch-slurm", "horovod-gloo", "horovodrun", "torchrun-static", "mxnet-sync",
    "mxnet-slurm", "tensorflow-ps", "spark", "ray",
)  # fmt: skip
"""Each family, by ssh, an MPI's launcher and Slurm, and two of the frameworks' own agents."""


def measure(hosts, case, number):
    """Seconds to the end of the job, of its last process, and as the job records; its exit code."""
    spec = REPOSITORY / "examples" / (case.example or case.row) / "spec.yaml"
    sets = [
        f"environment.venv={environment(case.row)}",
        *case.sets,
        "command+=--steps",
        "command+=100000000",
    ]
    job = make_job(hosts, f"{case.id}-{number}", spec, launcher=case.launcher, sets=sets).start()
    deadline = time.monotonic() + case.seconds
    while not any(re.search(r"step [1-9]\d* ", log) for log in job.logs(case.role)):
        if job.process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"{case.id} did not come to train:\n{job.said()}")
        time.sleep(0.05)
    began = time.monotonic()
    job.kill(*case.victim)
    code = job.wait(300)
    ended = time.monotonic() - began
    while hosts.left() and time.monotonic() < began + 300:
        time.sleep(0.05)
    gone = time.monotonic() - began
    notes = [path.read_text().split() for path in (job.directory / "failures").iterdir()]
    first = min(int(note[0]) for note in notes) / 1e9
    own = json.loads((job.directory / "state.json").read_text())["ended"] - int(first)
    return ended, gone, own, code


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1, help="runs of each case; the longest counts")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"default: {' '.join(USUAL)}")
    options = parser.parse_args()
    known = {case.id: case for case in CASES if case.victim}
    print(
        f"{'case':18} {'killed':12} {'job ended':>10} {'none left':>10} {'own account':>12} {'code':>5}  goal {GOAL} s"
    )
    with Hosts(f"ending-{os.getpid()}") as hosts:
        for name in options.cases or USUAL:
            case = replace(known[name], seconds=300)
            if not ready(case.row):
                print(f"{name:18} not installed")
                continue
            runs = [measure(hosts, case, number) for number in range(options.rounds)]
            ended, gone, own, code = (max(column) for column in zip(*runs, strict=True))
            verdict = "within" if gone < GOAL else "over"
            victim = " ".join(map(str, case.victim))
            print(
                f"{name:18} {victim:12} {ended:8.1f} s {gone:8.1f} s {own:10d} s {code:>5}  {verdict}",
                flush=True,
            )


if __name__ == "__main__":
    main()
