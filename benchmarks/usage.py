"""What measuring a job costs: the same CPU-bound work with `usage: true` and `usage: false`, taking turns.

    python benchmarks/usage.py [--rounds N] [--seconds S]

Each round runs both jobs, on the `local` scheduler's script. The table has the CPU time of everything (waited for to the end),
the wall time, and the sampler's own CPU time and memory, as it records them itself. Budget: 0.2 % of a core, 30 MB.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORK = "import time\nuntil = time.process_time() + {}\nwhile time.process_time() < until: sum(range(1000))"
SITE = "name: here\nscheduler: {type: local}\nlauncher: {name: local}\nrendezvous: {address: loopback}\n"


def render(place, seconds, usage):
    """The directory of a job that computes for so long."""
    spec = {
        "name": "work",
        "command": ["python3", "-c", WORK.format(seconds)],
        "site": "./site.yaml",
        "usage": usage,
    }
    (place / "site.yaml").write_text(SITE)
    (place / "spec.yaml").write_text(json.dumps({**spec, "resources": {"ranks_per_node": 1}}))
    job = place / f"usage-{usage}"
    dlrun = Path(sys.executable).with_name("dlrun")
    subprocess.run([dlrun, "render", "spec.yaml", "-o", job], cwd=place, check=True, capture_output=True)
    (job / "logs").mkdir(exist_ok=True)
    return job


def run(job):
    """CPU and wall time in seconds."""
    began = time.monotonic()
    with subprocess.Popen(["bash", "job.sh"], cwd=job, stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{job} failed")
    return used.ru_utime + used.ru_stime, time.monotonic() - began


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        jobs = {usage: render(Path(name), options.seconds, usage) for usage in (False, True)}
        found = {usage: [] for usage in jobs}
        for number in range(options.rounds):
            for usage in sorted(jobs, reverse=bool(number % 2)):
                found[usage].append(run(jobs[usage]))
        ends = [
            json.loads(line)
            for path in (jobs[True] / "usage").iterdir()
            for line in path.read_text().splitlines()
            if '"kind":"end"' in line
        ]
    print(f"{'':14} {'CPU s median':>13} {'spread':>7} {'wall s median':>14} {'spread':>7}")
    for usage, rows in found.items():
        cpu, wall = ([row[i] for row in rows] for i in (0, 1))
        label = "measured" if usage else "not measured"
        print(
            f"{label:14} {statistics.median(cpu):13.3f} {max(cpu) - min(cpu):7.3f} {statistics.median(wall):14.3f} "
            f"{max(wall) - min(wall):7.3f}"
        )
    more = (
        statistics.median(row[0] for row in found[True]) / statistics.median(row[0] for row in found[False])
        - 1
    )
    own, memory = statistics.median(end["own"][0] for end in ends), max(end["own"][1] for end in ends)
    length = statistics.median(end["t"] for end in ends)
    print(
        f"CPU time {more:+.2%}; the sampler: {own:.3f} s in {length:.0f} s ({own / length:.2%} of a core), {memory / 1e6:.1f} MB"
    )


if __name__ == "__main__":
    main()
