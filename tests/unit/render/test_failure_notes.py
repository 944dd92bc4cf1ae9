"""What `rank.sh` and `stage.sh` note of a failure while the scheduler ends them because of another's."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "golden/slurm-srun-staged"
DATE = """#!/bin/bash
kill -TERM "$PPID" "$$" # srun signals every process of the step
echo 1700000000000000000
"""
CASES = {
    "stage.sh": ("failed", "index=1 host=n2.site", "failed 3", "1700000000000000000 stage 1 n2 3"),
    "rank.sh": (
        "fail", "role=rank DLRUN_RANK=1 DLRUN_HOST=n2 late=", "fail 3 'out of memory'",
        "1700000000000000000 rank 1 n2 3 out of memory",
    ),
}  # fmt: skip


@pytest.mark.parametrize("script", CASES)
def test_a_failure_is_noted_whole_while_another_ends_this_one(tmp_path, script):
    name, variables, call, note = CASES[script]
    (tmp_path / "failures").mkdir()
    (tmp_path / "date").write_text(DATE)
    (tmp_path / "date").chmod(0o755)
    function = re.search(
        rf"^{name}\(\) \{{.*?^\}}$", (SCRIPTS / script).read_text(), re.MULTILINE | re.DOTALL
    )
    assert function is not None
    done = subprocess.run(
        ["bash", "-c", f"trap 'exit 143' TERM\n{variables}\n{function.group()}\n{call}"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "DLRUN_RUN_DIR": str(tmp_path)},
        check=False,
    )
    assert done.returncode == 3
    (written,) = (tmp_path / "failures").iterdir()
    assert written.read_text().splitlines()[0] == note
