"""Time that `dlrun run` adds to `srun` in an allocation, and what many runs in a row leave behind.

    python benchmarks/run.py [--runs N]

In one allocation of a two-node Slurm cluster of the tests (needs root), `dlrun run -- PROGRAM` and
`srun -N2 -n2 PROGRAM` take turns. The time is from the start of the command until the last rank runs its first
instruction, as the ranks record, and until the command has returned. The goal is at most 500 ms more than srun from the
second run on, with the placement check that `dlrun run` makes by default. Then it is looked for what the runs have left:
processes of the user on each node, locks of ports, and files in the working directory beside the jobs' own. At last a run is
interrupted as by Ctrl-C, with a program that ignores SIGTERM: the time until no node has a process of it, goal 3 s.
"""

import argparse
import compileall
import json
import os
import signal
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, cgroups  # noqa: E402
from tests.cluster.jobs import PYTHON, SLURM_SITE, User  # noqa: E402

BUDGET = 500
"""Milliseconds that dlrun may add from the second run on."""
PROGRAM = 'date +%s%N >"$OUT-$SLURM_PROCID"'
IN_TURN = """
import json, os, pathlib, subprocess, sys, time
runs, *ways = json.loads(sys.argv[1])
for number in range(runs):
    for name, command in ways:
        out = f"{os.getcwd()}/out-{name}-{number}"
        began = time.time_ns()
        done = subprocess.run(command, env={**os.environ, "OUT": out}, capture_output=True, text=True, check=False)
        ended = time.time_ns()
        if done.returncode:
            sys.exit(f"{name} failed: {done.stdout}{done.stderr}")
        started = max(int(pathlib.Path(f"{out}-{rank}").read_text()) for rank in (0, 1))
        print(json.dumps([name, (started - began) / 1e6, (ended - began) / 1e6]), flush=True)
        for rank in (0, 1):
            os.unlink(f"{out}-{rank}")
"""
STUBBORN = "sleep 10000.25"


def environment(alice):
    """The variables of the user's shell."""
    path = f"{PYTHON}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    return {"DLRUN_SITE": str(alice.directory / "site.yaml"), "PATH": path}


def allocated(alice, *command):
    """Start a command on the first node of an allocation of both."""
    words = ["salloc", "-N2", "--exclusive", "-t", "60", "srun", "-N1", "-n1", "--overlap", *command]
    return alice.cluster.popen("login", words, user="alice", env=environment(alice), cwd=str(alice.directory))


def in_turn(alice, runs):
    """Milliseconds of each run until the ranks have started and until the command has returned, by way."""
    program = ["bash", "-c", PROGRAM]
    ways = [
        ("srun", ["srun", "-N2", "-n2", "--overlap", *program]),
        ("dlrun", [str(PYTHON / "dlrun"), "run", "--ranks-per-node", "1", "--name", "again", "--", *program]),
    ]
    process = allocated(alice, str(PYTHON / "python"), "-c", IN_TURN, json.dumps([runs, *ways]))
    found = {"srun": [], "dlrun": []}
    for line in process.stdout:
        name, started, ended = json.loads(line)
        found[name].append((started, ended))
    if process.wait():
        raise SystemExit(process.stderr.read())
    return found


def left(cluster):
    """Processes of the user and locks of ports on each node."""
    found = []
    for host in ("n1", "n2"):
        processes = cluster.on(host, "pgrep -u alice -a || true", user="root").stdout.splitlines()
        locks = cluster.on(host, "ls -A /tmp/dlrun-ports-* 2>/dev/null || true", user="root").stdout.split()
        found += [f"{host}: {what}" for what in (*processes, *locks)]
    return found


def interrupted(alice):
    """Seconds from Ctrl-C until no node has a process of a program that ignores SIGTERM."""
    program = f"trap '' TERM; echo begun; {STUBBORN}; {STUBBORN}"
    words = [str(PYTHON / "dlrun"), "run", "--ranks-per-node", "1", "--", "bash", "-c", program]
    process = allocated(alice, "bash", "-c", 'echo "$$" >pid; exec "$0" "$@"', *words)
    if process.stdout.readline() != "begun\n":
        raise SystemExit(process.stderr.read())
    pid = (alice.directory / "pid").read_text().strip()
    ask = f"pgrep -fxc '{STUBBORN}' || true"
    while int(alice.cluster.on("n2", ask, user="root").stdout) == 0:
        time.sleep(0.1)
    began = time.monotonic()
    alice.cluster.on("n1", ["kill", f"-{int(signal.SIGINT)}", pid], user="alice", check=True)
    while any(int(alice.cluster.on(host, ask, user="root").stdout) for host in ("n1", "n2")):
        time.sleep(0.05)
    took = time.monotonic() - began
    process.communicate()
    return took


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=40, metavar="N", help="default: 40")
    runs = parser.parse_args().runs
    compileall.compile_dir(
        ROOT / "dlrun", quiet=1
    )  # as an installation does; the cluster's user may not write there
    spec = ClusterSpec(
        node_types=(NodeType(count=2),),
        partitions=(Partition(name="work", default=True, max_time="1-00:00:00"),),
        cgroup=not cgroups.why_not(),
        slurm_conf=("KillWait=2",),
    )
    with Cluster(spec, name=f"run-{os.getpid()}") as cluster:
        alice = User(cluster, SLURM_SITE)
        before = {path.name for path in alice.directory.iterdir()}
        found = in_turn(alice, runs)
        print(
            f"{'':6} {'first':>8} {'start: least':>13} {'median':>8} {'whole: median':>14}   (ms; without the first run)"
        )
        medians = {}
        for name, times in found.items():
            later = times[1:] or times
            started = [start for start, _ in later]
            medians[name] = statistics.median(started)
            whole = statistics.median(end for _, end in later)
            print(f"{name:6} {times[0][0]:8.0f} {min(started):13.0f} {medians[name]:8.0f} {whole:14.0f}")
        more = medians["dlrun"] - medians["srun"]
        pairs = [ours[0] / theirs[0] for ours, theirs in zip(found["dlrun"], found["srun"], strict=True)]
        verdict = "within" if more < BUDGET else "over"
        ratio = statistics.median(pairs)
        print(
            f"dlrun adds {more:.0f} ms (goal {BUDGET}: {verdict}); median of the ratios of pairs {ratio:.1f}"
        )
        files = {path.name for path in alice.directory.iterdir()} - before
        print(f"left after {runs} runs: {', '.join([*left(cluster), *sorted(files)]) or 'nothing'}")
        print(f"Ctrl-C: no process after {interrupted(alice):.1f} s (goal 3)")


if __name__ == "__main__":
    main()
