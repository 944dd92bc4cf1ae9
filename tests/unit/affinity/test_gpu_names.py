"""The GPUs of each rank where the scheduler names them in another way or order than the plan: indexes, UUIDs, abbreviated UUIDs
and MIG UUIDs, in the variables of CUDA, ROCm and Level Zero. The rule once more in Python, from the plan and the grant alone."""

from __future__ import annotations

import itertools
import os
import random
import subprocess

import pytest

from dlrun.affinity.bind import library
from tests.examples import examples

SCRIPT = r"""
_dlrun_driver=$ROOT/nvidia _dlrun_devices=$ROOT/pci
while IFS='|' read -r variable DLRUN_LOCAL_SIZE planned DLRUN_LOCAL_RANK visible rows; do
  _dlrun_gpus=
  export "$variable=$visible"
  _dlrun_share_gpus "$planned" "${PLANNED:-$variable}" "$rows"
  IFS=, read -ra all <<<"$rows"
  per=$((${#all[@]} / planned))
  if ((DLRUN_LOCAL_RANK < planned)); then
    printf -v row ',%s' "${all[@]:DLRUN_LOCAL_RANK * per:per}"
    dlrun_show_gpus "${PLANNED:-$variable}" "${row#,}"
  fi
  echo "${!variable}|$_dlrun_gpu_names"
done
"""
VARIABLES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")
NAMES = {
    "index": "{}",
    "nvidia": "GPU-{0}e58ca71-6fd1-4c32-bc1e-0f5a9c1f{0}001",
    "nvidia, abbreviated": "GPU-{0}e58",
    "amd": "GPU-{0}1cb2f5a9c1f0001",
    "mig": "MIG-{0}41da7f1-5d6b-5c4a-9d47-0f5a9c1f{0}001",
    "mig of old drivers": "MIG-GPU-{0}e58ca71-6fd1-4c32-bc1e-0f5a9c1f{0}001/7/0",
    "unknown": "GPU-f{0}58ca71",
    "tile": "{}.0",
}
PLACED = ("index", "nvidia", "nvidia, abbreviated", "amd")
"""Names from which the GPU is known; of others the n-th counts as the n-th GPU."""


def oracle(
    visible: tuple[int, ...], planned: int, local: int, each: int, *, placed: bool
) -> list[tuple[int, ...]]:
    """Each rank's GPUs, as numbers of GPUs: the plan's if all are visible, else equal parts in the order of the variable."""
    rows = [tuple(range(rank * each, (rank + 1) * each)) for rank in range(planned)]
    shown = {gpu: gpu for gpu in visible} if placed else dict(enumerate(visible))
    if local <= planned and all(gpu in shown for row in rows for gpu in row):
        return [tuple(shown[gpu] for gpu in row) for row in rows[:local]]
    if len(visible) <= each:
        return [visible] * local
    if len(visible) >= local * each:
        return [visible[rank * each : (rank + 1) * each] for rank in range(local)]
    starts = [min(rank * len(visible) // local, len(visible) - each) for rank in range(local)]
    return [visible[start : start + each] for start in starts]


def nodes(root, kind):
    """GPUs as their drivers list them, by ascending PCI addresses."""
    for gpu in range(8):
        place = root / "nvidia" / "gpus" / f"0000:0{gpu}:00.0"
        if kind.startswith(("nvidia", "mig")):
            place.mkdir(parents=True)
            text = f"Model: \t\t A100\nGPU UUID: \t {NAMES['nvidia'].format(gpu)}\nDevice Minor: \t {gpu}\n"
            (place / "information").write_text(text)
        elif kind == "amd":
            place = root / "pci" / f"0000:0{gpu}:00.0"
            place.mkdir(parents=True)
            (place / "unique_id").write_text(f"{NAMES['amd'].format(gpu).removeprefix('GPU-')}\n")


def shown(root, lines, **more):
    """The variable of the rank of each line, and the GPUs of all its ranks where they are divided."""
    done = subprocess.run(
        ["bash", "-c", f"set -uo pipefail\n{library()}\n{SCRIPT}"],
        input="".join(f"{line}\n" for line in lines),
        env={"PATH": os.environ["PATH"], "ROOT": str(root), **more},
        capture_output=True,
        text=True,
        check=True,
    )
    return [line.split("|") for line in done.stdout.splitlines()]


def ordered_subsets(count):
    """All 109,600 ordered subsets of eight GPUs, or so many of them."""
    every = [one for size in range(1, 9) for one in itertools.permutations(range(8), size)]
    return every if count >= len(every) else random.Random(count).sample(every, count)


@pytest.mark.parametrize("count", [examples(60), pytest.param(examples(3000), marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("variable", "kind"),
    [
        *((variable, "index") for variable in VARIABLES),
        *(("CUDA_VISIBLE_DEVICES", kind) for kind in NAMES if "mig" in kind or "nvidia" in kind),
        ("CUDA_VISIBLE_DEVICES", "unknown"),
        ("ROCR_VISIBLE_DEVICES", "amd"),
        ("ZE_AFFINITY_MASK", "tile"),
    ],
)
def test_every_rank_has_gpus_of_its_own(tmp_path, count, variable, kind):
    """Of each case one rank is started; the plan may have fewer ranks than run, or more. `DLRUN_EXAMPLES=40` tries all."""
    nodes(tmp_path, kind)
    chance, lines, cases = random.Random(kind), [], []
    for visible in ordered_subsets(count):
        for local, each in (
            (1, 1),
            (2, 1),
            (3, 1),
            (4, 1),
            (5, 1),
            (6, 1),
            (7, 1),
            (8, 1),
            (2, 2),
            (4, 2),
            (1, 4),
        ):
            planned = chance.choice((local, local, max(1, local - 1), local + (local < 8 // each)))
            rank = chance.randrange(local)
            names = ",".join(NAMES[kind].format(gpu) for gpu in visible)
            rows = ",".join(map(str, range(planned * each)))
            lines.append(f"{variable}|{local}|{planned}|{rank}|{names}|{rows}")
            cases.append((visible, planned, local, each, rank))
    for (visible, planned, local, each, rank), (mine, all_names) in zip(
        cases, shown(tmp_path, lines), strict=True
    ):
        wanted = oracle(visible, planned, local, each, placed=kind in PLACED)
        case = (visible, planned, local, each, rank)
        assert mine == ",".join(NAMES[kind].format(gpu) for gpu in wanted[rank]), case
        flat = [gpu for row in wanted for gpu in row]
        if all_names:
            assert all_names == ",".join(NAMES[kind].format(gpu) for gpu in flat), case
        if len(visible) >= len(flat):
            assert len(set(flat)) == len(flat), case


@pytest.mark.parametrize(
    ("environment", "planned", "visible", "ranks"),
    [
        ({}, "", "2,-1,3", ["2,-1,3", "2,-1,3"]),
        ({}, "", "2,3,NoDevFiles", ["2", "3"]),
        ({}, "", "NoDevFiles", ["NoDevFiles", "NoDevFiles"]),
        ({}, "", "-1", ["-1", "-1"]),
        ({}, "", "", ["", ""]),
        ({}, "", "GPU-1,GPU-", ["GPU-1", "GPU-"]),
        ({"HIP_VISIBLE_DEVICES": "2,3"}, "ROCR_VISIBLE_DEVICES", "3,2", ["3", "2"]),
    ],
)
def test_names_of_no_gpu_end_the_list_and_a_variable_below_the_plans_is_kept(
    tmp_path, environment, planned, visible, ranks
):
    """Below ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES counts anew: both together would leave some ranks without a GPU."""
    nodes(tmp_path, "nvidia")
    variable = next(iter(environment), "CUDA_VISIBLE_DEVICES")
    lines = [f"{variable}|2|2|{rank}|{visible}|0,1" for rank in (0, 1)]
    assert [mine for mine, _ in shown(tmp_path, lines, PLANNED=planned)] == ranks
