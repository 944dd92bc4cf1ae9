"""What `rank.sh` and `stage.sh` note of a failure while the scheduler ends them because of another's."""

from __future__ import annotations

import subprocess

import pytest

from tests.library import LIBRARY

DATE = """#!/bin/bash
kill -TERM "$PPID" "$$" # srun signals every process of the step
echo 1700000000000000000
"""
CASES = {
    "stage": (
        "_dlrun_index=1 _dlrun_host=n2.site", "_dlrun_failed 3", "1700000000000000000 stage 1 n2 3",
    ),
    "rank": (
        "DLRUN_ROLE=rank DLRUN_RANK=1 DLRUN_HOST=n2", "dlrun_fail 3 'out of memory'",
        "1700000000000000000 rank 1 n2 3 out of memory",
    ),
}  # fmt: skip


@pytest.mark.parametrize("part", CASES)
def test_a_failure_is_noted_whole_while_another_ends_this_one(tmp_path, part):
    variables, failing, note = CASES[part]
    (tmp_path / "failures").mkdir()
    (tmp_path / "date").write_text(DATE)
    (tmp_path / "date").chmod(0o755)
    done = subprocess.run(
        ["bash", "-c", f"source {LIBRARY}/{part}.sh; trap 'exit 143' TERM\n{variables}\n{failing}"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "DLRUN_RUN_DIR": str(tmp_path)},
        check=False,
    )
    assert done.returncode == 3
    (written,) = (tmp_path / "failures").iterdir()
    assert written.read_text().splitlines()[0] == note


def test_what_a_check_has_noted_stays_when_the_program_is_killed_for_it(tmp_path):
    """The check ends the program, whose exit code is no cause then; the second note could also be cut off by a SIGKILL."""
    (tmp_path / "failures").mkdir()
    script = "(dlrun_fail 1 'alone: each rank')\ndlrun_fail 137"
    done = subprocess.run(
        ["bash", "-c", f"source {LIBRARY}/rank.sh; DLRUN_ROLE=rank DLRUN_RANK=1 DLRUN_HOST=n2\n{script}"],
        env={"PATH": "/usr/bin:/bin", "DLRUN_RUN_DIR": str(tmp_path)},
        check=False,
    )
    assert done.returncode == 137
    assert (
        (tmp_path / "failures/rank-1").read_text().splitlines()[0].endswith(" rank 1 n2 1 alone: each rank")
    )
