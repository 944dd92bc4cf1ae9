"""What `stage.sh` notes of a failure while the scheduler ends it because of another node's."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "golden/slurm-srun-staged/stage.sh"
DATE = """#!/bin/bash
kill -TERM "$PPID" "$$" # srun signals every process of the step
echo 1700000000000000000
"""


def test_a_failure_is_noted_whole_while_another_node_ends_this_one(tmp_path):
    (tmp_path / "failures").mkdir()
    (tmp_path / "date").write_text(DATE)
    (tmp_path / "date").chmod(0o755)
    found = re.search(r"^failed\(\) \{.*?^\}$", SCRIPT.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    script = f"trap 'exit 143' TERM # as while data comes in\nindex=1 host=n2.site\n{found.group()}\nfailed 3"
    done = subprocess.run(
        ["bash", "-c", script],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "DLRUN_RUN_DIR": str(tmp_path)},
        check=False,
    )
    assert done.returncode == 3
    assert (tmp_path / "failures/stage-1").read_text() == "1700000000000000000 stage 1 n2 3\n"
