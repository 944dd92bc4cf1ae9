"""The GPUs of each rank where the scheduler names them in another way or order than the plan: a few of the cases that
`python -m tests.oracles.granted_gpus` tries, and names that are none."""

from __future__ import annotations

from dataclasses import replace

import pytest

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
