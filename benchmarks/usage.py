"""The cost of measuring a job: the same training with `usage: true` and `usage: false`, in turn.

    python benchmarks/usage.py [--workload burn,digits,ddp] [--rounds N] [--size N] [--keep DIRECTORY --within SECONDS]
    python benchmarks/usage.py --stop SECONDS [--workload digits,ddp] [--rounds N]

`burn` is one rank that computes, `digits` the example, `ddp` PyTorch's DistributedDataParallel with two ranks that compute;
`--size` makes them longer. Each round runs both jobs, with the script of the `local` scheduler. The table has the CPU time of
all processes, until the last has ended, and the wall time: the median of the rounds' differences with its standard error;
and the sampler's own CPU time and memory, as it records them. Budget: 0.5 %, or less than the noise; 0.2 % of a core, 30 MB.

With `--keep`, the rounds are stored in that directory, and `--within` ends the program after so many seconds; the same
command continues (exit code 3: some rounds are missing).

With `--stop`, one job of each workload runs all the time, and its sampler is stopped (SIGSTOP) and continued in turn, for so
many seconds each time: on a machine whose speed changes from minute to minute, only this can show a difference of less than
1 %. A round has both; their speed is that of the lines in the log of rank 0. The sampler's start is not part of it.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
WORK = "import time\nuntil = time.process_time() + {}\nwhile time.process_time() < until: sum(range(1000))"
SITE = "name: here\nscheduler: {type: local}\nlauncher: {name: local}\nrendezvous: {address: loopback}\n"
WORKLOADS = {
    "burn": lambda size: (1, ["-c", WORK.format(size)]),
    "digits": lambda size: (2, [str(HERE.parent / "examples/digits/train.py"), "--epochs", str(10 * size)]),
    "ddp": lambda size: (2, [str(HERE / "tune_workloads/ddp.py"), "25", "1", "0", str(2 * size)]),
}
"""Number of ranks and arguments of Python, for a size in seconds."""


def render(place, name, size, usage):
    """The directory of a job."""
    ranks, words = WORKLOADS[name](size)
    spec = {"name": name, "command": [sys.executable, *words], "site": "./site.yaml", "usage": usage}
    if ranks > 1:
        spec["framework"] = "torch"
    (place / "site.yaml").write_text(SITE)
    (place / "spec.yaml").write_text(json.dumps({**spec, "resources": {"ranks_per_node": ranks}}))
    job = place / f"usage-{usage}"
    dlrun = Path(sys.executable).with_name("dlrun")
    subprocess.run([dlrun, "render", "spec.yaml", "-o", job], cwd=place, check=True, capture_output=True)
    (job / "logs").mkdir(exist_ok=True)
    return job


def run(job):
    """CPU and wall time in seconds; CPU time, duration and memory of the sampler, if it ran."""
    began = time.monotonic()
    with subprocess.Popen(["bash", "job.sh"], cwd=job, stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - began
    if process.returncode:
        raise SystemExit(f"{job} failed")
    ends = [
        json.loads(line)
        for path in job.glob("usage/*.jsonl")
        for line in path.read_text().splitlines()
        if '"kind":"end"' in line
    ]
    own = [ends[-1]["own"][0], ends[-1]["t"], ends[-1]["own"][1]] if ends else None
    return {"cpu": used.ru_utime + used.ru_stime, "wall": wall, "own": own}


def measure(name, options, until):
    """The rounds of a workload, each with both runs; None if the time is over."""
    rows, longest = [], 0.0
    record = options.keep / f"{name}-{options.size}.jsonl" if options.keep else None
    if record is not None and record.exists():
        rows = [json.loads(line) for line in record.read_text().splitlines()]
    with tempfile.TemporaryDirectory() as place:
        jobs = {usage: render(Path(place), name, options.size, usage) for usage in (False, True)}
        while len(rows) < options.rounds:
            began = time.monotonic()
            if began + longest > until:
                return None
            done = {str(usage): run(jobs[usage]) for usage in sorted(jobs, reverse=bool(len(rows) % 2))}
            rows.append(done)
            if record is not None:
                record.parent.mkdir(parents=True, exist_ok=True)
                with record.open("a") as file:
                    file.write(json.dumps(done) + "\n")
            longest = max(longest, 1.2 * (time.monotonic() - began))
    return rows


def stop_in_turn(name, options):
    """The relative differences of speed, with the sampler against without, one for each round."""
    speeds = []
    with tempfile.TemporaryDirectory() as place:
        # Longer than needed: the job is ended below.
        job = render(Path(place), name, round(10 * options.rounds * options.stop), True)
        log = job / "logs/rank-0.log"
        with subprocess.Popen(["bash", "job.sh"], cwd=job, stdout=subprocess.DEVNULL) as process:
            try:
                file = wait_for(lambda: next(job.glob("usage/*.jsonl"), None))
                sampler = int(wait_for(lambda: file.read_text().partition('"id":"')[2].partition(".")[0]))
                wait_for(lambda: count(log) > 20)
                for number in range(2 * options.rounds):
                    on = number % 4 in (0, 3)  # a machine that becomes slower must not favour either
                    os.kill(sampler, signal.SIGCONT if on else signal.SIGSTOP)
                    began, before = time.monotonic(), count(log)
                    time.sleep(options.stop)
                    speeds.append((count(log) - before) / (time.monotonic() - began))
                os.kill(sampler, signal.SIGCONT)
            finally:
                process.terminate()
    pairs = zip(speeds[::2], speeds[1::2], strict=True)
    return [(a / b if number % 2 == 0 else b / a) - 1 for number, (a, b) in enumerate(pairs)]


def count(log):
    """The lines of a log so far; 0 without one."""
    return log.read_bytes().count(b"\n") if log.exists() else 0


def wait_for(found):
    """The first true value of a function, within a minute."""
    until = time.monotonic() + 60
    while not (value := found()):
        if time.monotonic() > until:
            raise SystemExit("the job has not started")
        time.sleep(0.1)
    return value


def show(name, rows):
    """The lines of a workload."""
    for what in ("cpu", "wall"):
        plain, measured = ([row[usage][what] for row in rows] for usage in ("False", "True"))
        each = [b / a - 1 for a, b in zip(plain, measured, strict=True)]
        error = statistics.stdev(each) / len(each) ** 0.5 if len(each) > 1 else 0.0
        spread = (max(plain) - min(plain)) / statistics.median(plain)
        print(
            f"{name:8} {what:5} {statistics.median(plain):10.3f} {statistics.median(measured):10.3f} "
            f"{statistics.median(each):+9.2%} ± {error:.2%} {spread:8.1%}"
        )
    own = [row["True"]["own"] for row in rows]
    used, length = statistics.median(one[0] for one in own), statistics.median(one[1] for one in own)
    print(
        f"{name:8} the sampler: {used:.3f} s in {length:.0f} s ({used / length:.2%} of a core), "
        f"{max(one[2] for one in own) / 1e6:.1f} MB",
        flush=True,
    )


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workload", default=",".join(WORKLOADS))
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--size", type=int, default=20)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--within", type=float, default=float("inf"), metavar="SECONDS")
    parser.add_argument("--stop", type=float, metavar="SECONDS")
    options = parser.parse_args()
    if options.stop:
        print("                   speed with the sampler (median, mean of the rounds)")
        for name in options.workload.split(","):
            each = stop_in_turn(name, options)
            error = statistics.stdev(each) / len(each) ** 0.5
            print(
                f"{name:8} {statistics.median(each):+9.2%} {statistics.fmean(each):+9.2%} ± {error:.2%}",
                flush=True,
            )
        return
    until = time.monotonic() + options.within
    print("         time   without s     with s  difference (median of the rounds)  spread without")
    for name in options.workload.split(","):
        rows = measure(name, options, until)
        if rows is None:
            raise SystemExit(3)
        show(name, rows)


if __name__ == "__main__":
    main()
