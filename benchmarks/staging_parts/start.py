"""How early training begins if it does not wait for all of its data, and whether its first epoch takes longer for that."""

import os
import subprocess
import sys
import time
from pathlib import Path

import dlrun.node

FILES, SIZE = 400, 1_000_000  # number of files, bytes of each
RATE, WORK = "40M", 8.0  # bytes per second of the source, seconds of work per epoch
TRAINING = """
import sys, time, dlrun_data
names = dlrun_data.files(sys.argv[1])
for number, name in enumerate(names):
    with open(dlrun_data.wait(name), "rb") as file:
        assert len(file.read()) == 1_000_000
    if not number:
        print(time.time(), flush=True)
    time.sleep(float(sys.argv[2]) / len(names))
print(time.time())
"""


def start(bench):
    """The first batch and the end of the first epoch in seconds after the job's start, the epoch itself, and the ratios."""
    source = bench.tree("shards", int(FILES * bench.given.scale) or 1, SIZE)
    print(
        f"\nstart: {len(list(source.rglob('f*')))} files of {SIZE // 10**6} MB at {RATE}B/s, {WORK:.0f} s of work an epoch\n"
    )
    ways = {"all first": [], "start: 10%": ["--job", "bench", "--start", "10%"]}
    rounds = {label: [] for label in ways}
    for _ in range(bench.given.rounds):  # ways take turns
        for label, more in ways.items():
            rounds[label].append(_once(bench, source, more))
    print("| way | first batch | first epoch | its end |\n|---|---|---|---|")
    rows = [[min(column) for column in zip(*times, strict=True)] for times in rounds.values()]
    for label, row in zip(ways, rows, strict=True):
        print(f"| {label} | {row[0]:.2f} s | {row[1]:.2f} s | {row[2]:.2f} s |", flush=True)
    ratios = [early / first for first, early in zip(*rows, strict=True)]
    print(f"| start: 10% / all first | {ratios[0]:.2f} | {ratios[1]:.2f} | {ratios[2]:.2f} |", flush=True)


def _once(bench, source, more):
    """Seconds from the job's start to the first batch, of the first epoch, and from the job's start to its end."""
    bench.disk.renew()
    began, note = time.time(), bench.root / "started"
    note.unlink(missing_ok=True)
    words = bench.node(
        "stage",
        "--source",
        source,
        "--to",
        bench.target / "start",
        "--name",
        "set",
        "--rate",
        RATE,
        "--quiet",
    )
    staging = subprocess.Popen(
        [*words, *more, *(["--started", str(note)] if more else [])], stdout=subprocess.DEVNULL
    )
    while staging.poll() is None and not (more and note.exists()):
        time.sleep(0.05)
    where = (
        bench.target / "start" / ".early-bench" / "set" / "data"
        if more
        else bench.target / "start" / "set" / "data"
    )
    first, end = _epoch(where)
    if staging.wait():
        raise SystemExit("staging failed")
    return first - began, end - first, end - began


def _epoch(where):
    environment = {**os.environ, "PYTHONPATH": str(Path(dlrun.node.__file__).parent)}
    words = [sys.executable, "-c", TRAINING, str(where), str(WORK)]
    done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return [float(word) for word in done.stdout.split()]
