"""A job is a page: what stands in it is this job; what all jobs share is in the library beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
CASES = sorted(path.parent for path in HERE.glob("*/job.sh"))
MUCH = {"slurm-srun-checked": 80, "slurm-srun-staged": 75}
"""Jobs of every check, and of three data sets and results."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_page_is_short(case):
    job, rank = (len((case / name).read_text("utf-8").splitlines()) for name in ("job.sh", "rank.sh"))
    assert job <= MUCH.get(case.name, 70)
    assert rank <= 45
