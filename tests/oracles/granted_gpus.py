"""The GPUs of each rank where a job was granted others than the plan's: the rule once more, from the plan and the grant alone.

    python -m tests.oracles.granted_gpus [--count N] [--one-each] [KIND...]

Every ordered subset of eight GPUs (or N of them), 1 to 8 ranks with one GPU each (of every eighth subset also with two), in
each kind of name that a scheduler gives GPUs. Of each case one rank is asked, in turn: what it is shown, and what it knows of
all ranks. With `--one-each` each subset has one number of ranks, which takes an eighth of the time. Prints the number of cases
of each kind and those that differ; ends with 1 if there are any.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dlrun.affinity.bind import library
from tests.oracles.batches import differ

SCRIPT = r"""
_dlrun_driver=$ROOT/nvidia _dlrun_devices=$ROOT/pci
# Which GPU each name is depends on the variable alone, and on the files of drivers, which are the same for all cases: it is
# found out once for the cases of one grant, which follow one another, and each name is looked up once.
eval "_dlrun_look_for$(declare -f _dlrun_find_gpu)"
eval "_dlrun_look_for$(declare -f _dlrun_find_gpus)"
_dlrun_read_tiles
_dlrun_read_tiles() { :; }
declare -A known=()
_dlrun_find_gpu() {
  if [[ -z ${known[$1]-} ]]; then
    _dlrun_look_for_dlrun_find_gpu "$1"
    known[$1]=:$index
  fi
  index=${known[$1]#:}
}
last=
_dlrun_find_gpus() {
  if [[ ${names[*]} != "$last" ]]; then
    last=${names[*]}
    _dlrun_look_for_dlrun_find_gpus
  fi
}
while IFS='|' read -r variable DLRUN_LOCAL_SIZE planned DLRUN_LOCAL_RANK visible rows row; do
  _dlrun_gpus=
  export "$variable=$visible"
  _dlrun_share_gpus "$planned" "${PLANNED:-$variable}" "$rows"
  if [[ -n $row ]]; then dlrun_show_gpus "${PLANNED:-$variable}" "$row"; fi
  echo "${!variable}|$_dlrun_gpu_names"
done
"""

NVIDIA = "GPU-{0}e58ca71-6fd1-4c32-bc1e-0f5a9c1f{0}001"
AMD = "GPU-{0}1cb2f5a9c1f0001"


@dataclass(frozen=True)
class Kind:
    """A way to name GPUs: the variable, the name of GPU {0}, whether the name says which GPU it is (else the n-th name counts
    as the n-th GPU), the driver whose files list the GPUs, the variable of the plan if it is another, the name that a rank
    is shown if it is another, and a further variable. GPU {0} is tile {2} of card {1}."""

    variable: str
    name: str
    placed: bool = True
    driver: str = ""
    planned: str = ""
    becomes: str = ""
    beside: tuple[str, str] = ("", "")

    def names(self, gpus: Iterable[int]) -> str:
        """As a scheduler writes them."""
        return ",".join(self.name.format(gpu, *divmod(gpu, 2)) for gpu in gpus)

    def shown(self, gpus: Iterable[int]) -> str:
        """As ranks see them."""
        return ",".join((self.becomes or self.name).format(gpu, *divmod(gpu, 2)) for gpu in gpus)


KINDS = {
    "cuda": Kind("CUDA_VISIBLE_DEVICES", "{}"),
    "cuda-uuid": Kind("CUDA_VISIBLE_DEVICES", NVIDIA, driver="nvidia"),
    "cuda-abbreviated": Kind("CUDA_VISIBLE_DEVICES", "GPU-{0}e58", driver="nvidia"),
    "cuda-unlisted": Kind("CUDA_VISIBLE_DEVICES", "GPU-f{0}58ca71", placed=False, driver="nvidia"),
    "mig": Kind("CUDA_VISIBLE_DEVICES", "MIG-{0}41da7f1-5d6b-5c4a-9d47-0f5a9c1f{0}001", placed=False, driver="nvidia"),
    "mig-of-old-drivers": Kind("CUDA_VISIBLE_DEVICES", f"MIG-{NVIDIA}/7/0", placed=False, driver="nvidia"),
    "rocr": Kind("ROCR_VISIBLE_DEVICES", "{}"),
    "rocr-uuid": Kind("ROCR_VISIBLE_DEVICES", AMD, driver="amd"),
    "hip": Kind("HIP_VISIBLE_DEVICES", "{}", planned="ROCR_VISIBLE_DEVICES"),
    "hip-uuid": Kind("HIP_VISIBLE_DEVICES", AMD, driver="amd", planned="ROCR_VISIBLE_DEVICES"),
    "ze": Kind("ZE_AFFINITY_MASK", "{}"),
    "ze-tile": Kind("ZE_AFFINITY_MASK", "{1}.{2}", driver="intel", becomes="{}"),
    "ze-tile-of-card": Kind("ZE_AFFINITY_MASK", "{1}.{2}", driver="intel", beside=("ZE_FLAT_DEVICE_HIERARCHY", "COMPOSITE")),
    "ze-tile-unlisted": Kind("ZE_AFFINITY_MASK", "{}.1", placed=False),
}  # fmt: skip

LAYOUTS = (*((ranks, 1) for ranks in range(1, 9)), (2, 2), (4, 2))
"""Ranks of the node, and GPUs of each in the plan."""


@dataclass(frozen=True)
class Case:
    """GPUs in the order of the variable, the ranks that the plan has and those that run, GPUs of each, and the rank asked."""

    visible: tuple[int, ...]
    planned: int
    local: int
    each: int
    rank: int

    def line(self, kind: Kind) -> str:
        rows = ",".join(map(str, range(self.planned * self.each)))
        row = ",".join(map(str, range(self.rank * self.each, (self.rank + 1) * self.each)))
        row = row if self.rank < self.planned else ""
        return f"{kind.variable}|{self.local}|{self.planned}|{self.rank}|{kind.names(self.visible)}|{rows}|{row}\n"


def oracle(case: Case, *, placed: bool) -> tuple[list[tuple[int, ...]], bool]:
    """Each rank's GPUs: the plan's if all are visible (True), else equal parts of what is, in the order of the variable."""
    rows = [tuple(range(rank * case.each, (rank + 1) * case.each)) for rank in range(case.planned)]
    visible, local, each = case.visible, case.local, case.each
    shown = {gpu: gpu for gpu in visible} if placed else dict(enumerate(visible))
    if local <= case.planned and all(gpu in shown for row in rows for gpu in row):
        return [tuple(shown[gpu] for gpu in row) for row in rows[:local]], True
    if len(visible) <= each:
        return [visible] * local, False
    if len(visible) >= local * each:
        return [visible[rank * each : (rank + 1) * each] for rank in range(local)], False
    starts = [min(rank * len(visible) // local, len(visible) - each) for rank in range(local)]
    return [visible[start : start + each] for start in starts], False


def ordered_subsets(count: int | None = None) -> list[tuple[int, ...]]:
    """All 109,600 ordered subsets of eight GPUs, or so many of them, always the same."""
    every = [one for size in range(1, 9) for one in itertools.permutations(range(8), size)]
    return every if count is None or count >= len(every) else random.Random(count).sample(every, count)


def cases(subsets: Iterable[tuple[int, ...]], *, one_each: bool = False) -> Iterator[Case]:
    """Each subset with each layout, or with one of them. The plan has as many ranks as run, one fewer or one more, and one rank
    is asked: drawn, but always the same."""
    chance = random.Random(8)
    for number, visible in enumerate(subsets):
        layouts = LAYOUTS if number % 8 == 0 else LAYOUTS[:8]
        for local, each in (chance.choice(LAYOUTS),) if one_each else layouts:
            more = local + (local < 8 // each)
            planned = chance.choice((local, max(1, local - 1), local, more))
            yield Case(visible, planned, local, each, chance.randrange(local))


def write_drivers(root: Path, kind: Kind) -> None:
    """GPUs as their driver lists them, by ascending PCI addresses."""
    for gpu in range(8):
        address = f"0000:0{gpu}:00.0"
        if kind.driver == "nvidia":
            place = root / "nvidia" / "gpus" / address
            place.mkdir(parents=True)
            text = f"Model: \t\t A100\nGPU UUID: \t {NVIDIA.format(gpu)}\nDevice Minor: \t {gpu}\n"
            (place / "information").write_text(text)
        elif kind.driver == "amd":
            place = root / "pci" / address
            place.mkdir(parents=True)
            (place / "unique_id").write_text(f"{AMD.format(gpu).removeprefix('GPU-')}\n")
        elif kind.driver == "intel" and gpu % 2 == 0:  # two tiles on each card
            place = root / "pci" / address
            for tile in range(2):
                (place / f"tile{tile}").mkdir(parents=True)
            (place / "class").write_text("0x038000\n")
            (place / "vendor").write_text("0x8086\n")


def shown(root: Path, lines: Iterable[str], **more: str) -> list[list[str]]:
    """The variable of the rank of each line, and the GPUs of all its ranks where they are divided; in one bash."""
    file = root / "cases"  # bash would read a pipe byte by byte
    file.write_text("".join(lines))
    with file.open() as opened:
        done = subprocess.run(
            ["bash", "-c", f"set -uo pipefail\n{library()}\n{SCRIPT}"],
            stdin=opened,
            env={"PATH": os.environ["PATH"], "ROOT": str(root), **more},
            capture_output=True,
            text=True,
            check=True,
        )
    return [line.split("|") for line in done.stdout.splitlines()]


def faults(root: Path, kind: Kind, every: Sequence[Case]) -> Iterator[str]:
    """What differs from the oracle, or makes ranks share a GPU though there are enough."""
    beside = dict([kind.beside]) if kind.beside[0] else {}
    answers = shown(root, (case.line(kind) for case in every), PLANNED=kind.planned, **beside)
    if len(answers) != len(every):
        yield f"{len(answers)} answers to {len(every)} cases"
        return
    for case, (mine, of_all) in zip(every, answers, strict=True):
        wanted, as_planned = oracle(case, placed=kind.placed)
        flat = [gpu for row in wanted for gpu in row]
        enough = len(case.visible) >= case.local * case.each
        if mine != kind.shown(wanted[case.rank]):
            yield f"{case}: is shown {mine} instead of {kind.shown(wanted[case.rank])}"
        nothing = as_planned or (len(case.visible) <= case.each and case.local > 1)  # to divide
        if of_all != ("" if nothing else kind.shown(flat)):
            yield f"{case}: knows of {of_all or 'none'} instead of {'none' if nothing else kind.shown(flat)}"
        if enough and len(set(flat)) < case.local * case.each:
            yield f"{case}: ranks share a GPU"
        if not enough and set(flat) != set(case.visible) and case.local * case.each > len(case.visible):
            yield f"{case}: a GPU is idle though there are too few"


def main(words: list[str]) -> int:
    """Print what was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracles.granted_gpus")
    parser.add_argument("--count", type=int, help="ordered subsets; default: all 109,600")
    parser.add_argument("--one-each", action="store_true", help="one number of ranks for each subset")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}; default: all")
    chosen = parser.parse_args(words)
    wrong = 0
    for name in chosen.kinds or KINDS:
        kind = KINDS[name]
        with tempfile.TemporaryDirectory() as folder:
            write_drivers(Path(folder), kind)
            stream = cases(ordered_subsets(chosen.count), one_each=chosen.one_each)
            wrong += differ(name, stream, partial(faults, Path(folder), kind), batch=40_000)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
