"""Run campaigns from the command line; exit status 1 at the first thing that must never be."""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from .codes import CodePowerCuts
from .ground import SHAPES, Ground
from .runs import Faults, Kills, PowerCuts, Wrong
from .submissions import COMMANDS, Submissions

KINDS = {"kills": Kills, "faults": Faults, "power-cuts": PowerCuts}
PARTS = {
    "copy": 0.15, "pack": 0.15, "shard": 0.05, "slow": 0.05, "early": 0.1, "part": 0.1, "web": 0.05, "s3": 0.05,
    "archive": 0.05, "archive-web": 0.05, "archive-s3": 0.05, "archive-pack": 0.05, "image": 0.1, "chain-image": 0.05,
    "chain": 0.1, "chain-early": 0.05, "chain-pack": 0.05, "chain-web": 0.05, "chain-archive-pack": 0.05,
}  # fmt: skip


def campaign(kind: str, shape: str, count: int, seed: int) -> "Counter[str]":
    """One campaign in one shape; Wrong at the first thing that must never be."""
    with tempfile.TemporaryDirectory(prefix="dlrun-campaign-") as directory:
        root = Path(directory)
        disk = root / "disk" if kind == "power-cuts" else None
        ground = Ground(root, seed, shape, disk)
        try:
            run = KINDS[kind](ground)
            try:
                run.run(count)
            finally:
                if isinstance(run, PowerCuts):
                    run.close()
        finally:
            ground.close()
        return run.tally


def shared(count: int, shapes: dict[str, float]) -> dict[str, int]:
    """How many of `count` each shape gets by its part; they add up to it, or are one for each shape."""
    found, done, before = {}, 0.0, 0
    for shape, part in shapes.items():
        done += part
        upto = round(count * done / sum(shapes.values()))
        found[shape] = max(1, upto - before)
        before = max(upto, before)
    return found


def submissions(count: int, seed: int, commands: tuple[str, ...] = COMMANDS) -> Submissions:
    """The campaign of submissions, on a disk of 4 MB, to its end."""
    with tempfile.TemporaryDirectory(prefix="dlrun-campaign-") as directory:
        disk = Path(directory) / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "dlrun", disk], check=True)
        run = Submissions(Path(directory), seed, disk)
        try:
            run.run(count, commands)
        finally:
            subprocess.run(["umount", "--lazy", disk], check=False)
        return run


def codes(count: int, seed: int) -> "Counter[str]":
    """The campaign of the store of code; Wrong at the first thing that must never be."""
    with tempfile.TemporaryDirectory(prefix="dlrun-campaign-") as directory:
        run = CodePowerCuts(Path(directory), seed)
        try:
            run.run(count)
        finally:
            run.close()
        return run.tally


def main() -> int:
    """Parse, run, print a tally."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=[*KINDS, "submissions", "code"])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--command", choices=COMMANDS, action="append", help="of submissions; default: all")
    parser.add_argument("--shape", choices=SHAPES, help="default: all of them, most of the simple ones")
    given = parser.parse_args()
    if given.kind in ("power-cuts", "submissions", "code") and "DLRUN_OWN_MOUNTS" not in os.environ:
        words = ["unshare", "--mount", sys.executable, "-m", "tests.campaigns", *sys.argv[1:]]
        return subprocess.run(words, env=dict(os.environ, DLRUN_OWN_MOUNTS="1"), check=False).returncode
    if given.kind == "submissions":
        run = submissions(given.count, given.seed, tuple(given.command or COMMANDS))
        for what, number in sorted(run.tally.items()):
            sys.stdout.write(f"submissions seed {given.seed}: {number} {what}\n")
        sys.stdout.write(f"submissions seed {given.seed}: {given.count} moments, {len(run.wrong)} WRONG\n")
        return 1 if run.wrong else 0
    if given.kind == "code":
        try:
            tally = codes(given.count, given.seed)
        except Wrong as wrong:
            sys.stdout.write(f"code seed {given.seed}: WRONG: {wrong}\n")
            return 1
        words = ", ".join(f"{number} {what}" for what, number in sorted(tally.items()))
        sys.stdout.write(f"code seed {given.seed}: {words}; 0 mixed trees\n")
        return 0
    shapes = {given.shape: 1.0} if given.shape else PARTS
    if given.kind == "power-cuts":
        shapes = {shape: part for shape, part in shapes.items() if not shape.startswith("chain")}
    total: Counter[str] = Counter()
    for shape, count in shared(given.count, shapes).items():
        began = time.monotonic()
        try:
            tally = campaign(given.kind, shape, count, given.seed)
        except Wrong as wrong:
            sys.stdout.write(f"{given.kind} {shape} seed {given.seed}: WRONG: {wrong}\n")
            return 1
        total += tally
        words = ", ".join(f"{number} {what}" for what, number in sorted(tally.items()))
        sys.stdout.write(
            f"{given.kind} {shape} seed {given.seed}: {count} in {time.monotonic() - began:.0f} s: {words}\n"
        )
        sys.stdout.flush()
    words = ", ".join(f"{number} {what}" for what, number in sorted(total.items()))
    sys.stdout.write(
        f"{given.kind} seed {given.seed}: {words}; 0 torn, 0 wrong after the next run, 0 tracebacks\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
