"""The cost of recording the code of a job at its submission, beside that of git and sha256sum for the same files.

    python benchmarks/code.py [--files N] [--rounds N]

The working tree has N tracked files of 4 KiB on average, of which three have changed; the page cache is warm. The goal: 0.3 s for
2,000 files. The peer lists them (`git ls-files`), finds the changes (`git status`, `git diff`) and computes the digests, without
the environment. The ways take turns, so that a busy machine disturbs all alike; the table has minimum and median. The last line
is from a file system that takes 5 ms for each file (`tests/slow_files.c`): the record says what it could not read, and takes
little more than its two seconds.
"""

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUDGET = 0.3
"""Seconds for 2,000 files."""
PEER = "git ls-files -z | xargs -0 sha256sum >/dev/null && git status --porcelain >/dev/null && git diff HEAD >/dev/null"


def make_tree(place, count):
    """A repository of so many files, of which three differ from the commit."""
    source = random.Random(1)
    for number in range(count):
        path = place / f"package{number % 40}" / f"module{number}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text("# line\n" * source.randrange(1200))
    git = ["git", "-C", place, "-c", "user.name=n", "-c", "user.email=e@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    for number in range(3):
        (place / f"package{number}" / f"module{number}.py").write_text("changed\n")


def record(place):
    """In a process of its own: record the code, and print the seconds, the number of files and the warning."""
    sys.path.insert(0, str(ROOT))
    from dlrun.jobs.code import record  # noqa: PLC0415 - by its path
    from tests.making import plan_of  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as scratch:
        plan = plan_of(
            Path(scratch),
            "command: [python, train.py]\n",
            "name: here\nscheduler: {type: slurm}\nlauncher: {name: srun}\n",
        )
    notes = []
    begun = time.perf_counter()
    texts = record.files(replace(plan, directory=str(place)), notes.append)
    seconds = time.perf_counter() - begun
    print(seconds, texts.get(record.LIST, "").count("\n"), *notes, sep="\t", flush=True)
    os._exit(0)  # as at the end of a submission, nothing waits for a read that hangs


def recorded(place, **variables):
    """(seconds, number of files, warnings) of one record."""
    done = subprocess.run(
        [sys.executable, __file__, "--record", place],
        env={**os.environ, **variables}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    seconds, files, *notes = done.stdout.rstrip("\n").split("\t")
    return float(seconds), int(files), notes


def peer(place):
    """Seconds of the peer."""
    begun = time.perf_counter()
    subprocess.run(["bash", "-c", PEER], cwd=place, check=True)
    return time.perf_counter() - begun


def main():
    """Print the table; the exit code is 1 if the budget is exceeded."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--record", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.record:
        record(asked.record)
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch) / "tree"
        place.mkdir()
        make_tree(place, asked.files)
        times = {"dlrun": [], "git and sha256sum": []}
        for _ in range(asked.rounds):
            seconds, files, notes = recorded(place)
            times["dlrun"].append(seconds)
            times["git and sha256sum"].append(peer(place))
        print(f"{files} files, {asked.rounds} rounds; seconds{'; ' if notes else ''}{'; '.join(notes)}")
        for name, each in times.items():
            print(f"{name:20} minimum {min(each):.3f}  median {statistics.median(each):.3f}")
        ratio = min(times["dlrun"]) / min(times["git and sha256sum"])
        print(f"ratio of the minima  {ratio:.2f}")
        shim = Path(scratch) / "slow_files.so"
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-O2", "-o", shim, ROOT / "tests" / "slow_files.c", "-ldl"],
            check=True,
        )
        seconds, files, notes = recorded(place, LD_PRELOAD=str(shim), SLOW_PLACE=str(place), SLOW_MS="5")
        print(f"5 ms a file          {seconds:.2f} s, {files} files; {'; '.join(notes)}")
    return int(min(times["dlrun"]) > BUDGET * asked.files / 2000)


if __name__ == "__main__":
    sys.exit(main())
