"""A job is a page: what stands in it is this job; what all jobs share is in the library beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
CASES = sorted(path.parent for path in HERE.glob("*/job.sh"))
MUCH = {"slurm-srun-checked": 70}
"""A job of every check."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_page_is_short(case):
    jobs, ranks = ([lines(path) for path in case.rglob(name)] for name in ("job.sh", "rank.sh"))
    assert max(jobs) <= MUCH.get(case.name, 62)
    assert max(ranks) <= 40


def lines(path: Path) -> int:
    return len(path.read_text("utf-8").splitlines())


def test_all_golden_text_can_be_read_by_a_person():
    assert sum(len(path.read_text("utf-8").splitlines()) for path in HERE.rglob("*.sh")) <= 5_650
