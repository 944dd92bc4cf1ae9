"""The GPUs of each rank where the scheduler names them in another way or order than the plan: a few of the cases that
`python -m tests.oracles.granted_gpus` tries, and names that are none."""

from __future__ import annotations

import os
import random
import subprocess
from dataclasses import replace

import pytest

from dlrun.affinity.bind import library
from dlrun.config.topology.granted_gpus import granted
from dlrun.config.topology.sysfs_devices import find_gpus
from dlrun.system.inputs.topology import DirectoryTree
from tests.examples import examples
from tests.oracles.granted_gpus import (
    KINDS,
    Case,
    cases,
    faults,
    oracle,
    ordered_subsets,
    shown,
    write_drivers,
)


@pytest.mark.parametrize("count", [examples(60), pytest.param(examples(3000), marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_rank_has_gpus_of_its_own(tmp_path, count, kind):
    write_drivers(tmp_path, kind)
    assert list(faults(tmp_path, kind, list(cases(ordered_subsets(count))))) == []


def test_the_oracle_is_not_the_library_again():
    """Grants of which each is wrong in another way if divided by each rank alone."""
    two = Case(visible=(1, 3), planned=2, local=2, each=1, rank=0)
    assert oracle(two, placed=True) == ([(1,), (3,)], False)
    assert oracle(replace(two, visible=(1, 0)), placed=True) == ([(0,), (1,)], True)
    assert oracle(replace(two, visible=(1, 0)), placed=False) == ([(1,), (0,)], True)
    assert oracle(replace(two, visible=(5,)), placed=True) == ([(5,), (5,)], False)
    assert oracle(replace(two, visible=(5, 2), local=4), placed=True) == ([(5,), (5,), (2,), (2,)], False)


@pytest.mark.parametrize(
    ("environment", "planned", "visible", "ranks"),
    [
        ({}, "", "2,-1,3", ["2,-1,3", "2,-1,3"]),
        ({}, "", "2,3,NoDevFiles", ["2", "3"]),
        ({}, "", "2, 3", ["2", "3"]),
        ({}, "", "1, 0", ["0", "1"]),
        ({}, "", "08,09", ["08", "09"]),
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
    write_drivers(tmp_path, KINDS["cuda-uuid"])
    variable = next(iter(environment), "CUDA_VISIBLE_DEVICES")
    lines = [f"{variable}|2|2|{rank}|{visible}|0,1|{rank}\n" for rank in (0, 1)]
    assert [mine for mine, _ in shown(tmp_path, lines, PLANNED=planned)] == ranks


CARDS = {
    "xe": ("tile0/gt0", "tile1/gt0"),
    "i915": ("drm/card0/gt/gt0", "drm/card0/gt/gt1", "drm/renderD128"),
    "one tile": ("drm/card1/gt/gt0",),
    "no driver": (),
}
"""What the driver of one of Intel's GPUs shows of its tiles."""

TILES = """
_dlrun_devices=$ROOT/sys/bus/pci/devices
while read -r ZE_AFFINITY_MASK; do
  export ZE_AFFINITY_MASK
  unset -v ZE_FLAT_DEVICE_HIERARCHY
  [[ -z $HIERARCHY ]] || export ZE_FLAT_DEVICE_HIERARCHY=$HIERARCHY
  IFS=, read -ra names <<<"$ZE_AFFINITY_MASK"
  _dlrun_name_tiles
  line=
  for name in "${names[@]}"; do _dlrun_find_gpu "$name"; line+=" $index"; done
  echo "$line"
done
"""


@pytest.mark.parametrize("hierarchy", ["", "FLAT", "COMPOSITE"])
def test_a_tile_of_level_zero_is_the_same_for_the_library_and_python(tmp_path, hierarchy):
    """`1.0` is a tile of a card; beside such names `1` is a card with all its tiles. What is not there does not count."""
    for number, files in enumerate((*CARDS.values(), CARDS["xe"])):
        place = tmp_path / "sys/bus/pci/devices" / f"0000:{number:02x}:00.0"
        for name in files:
            (place / name).mkdir(parents=True)
        place.mkdir(parents=True, exist_ok=True)
        (place / "class").write_text("0x038000\n")
        (place / "vendor").write_text("0x8086\n")
        (place / "device").write_text("0x0bd5\n")
    gpus = find_gpus(DirectoryTree(tmp_path), {0: 0})
    assert len(gpus) == 2 + 2 + 1 + 2 + 2
    chance, names = random.Random(hierarchy), [f"{card}.{tile}" for card in range(6) for tile in range(3)]
    masks = [
        ",".join([chance.choice(names[:6]), *chance.sample([*names, *map(str, range(6))], length)])
        for length in range(8)
        for _ in range(20)
    ]
    masks = [mask for mask in masks if mask.partition(",")[0] not in ("0.2", "1.2")]
    done = subprocess.run(
        ["bash", "-c", f"set -uo pipefail\n{library()}\n{TILES}"],
        input="".join(f"{mask}\n" for mask in masks),
        env={"PATH": os.environ["PATH"], "ROOT": str(tmp_path), "HIERARCHY": hierarchy},
        capture_output=True,
        text=True,
        check=True,
    )
    told = {"ZE_FLAT_DEVICE_HIERARCHY": hierarchy} if hierarchy else {}
    for mask, line in zip(masks, done.stdout.splitlines(), strict=True):
        found = granted(gpus, {"ZE_AFFINITY_MASK": mask, **told})
        assert [int(index) for index in line.split()] == [gpu.index for gpu in found], mask
