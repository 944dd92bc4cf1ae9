"""Records of nodes whose ranks divided another grant than the plan's, as the library writes them."""

from __future__ import annotations

import os
import subprocess

from dlrun.affinity.bind import library
from dlrun.jobs.records.divisions import divisions


def test_what_the_first_rank_of_a_node_writes_is_one_line(tmp_path):
    (tmp_path / "placement").mkdir()
    (tmp_path / "placement" / ".dlrun").touch()
    script = f"set -uo pipefail\n{library()}\n_dlrun_taskset() {{ :; }}\n_dlrun_granted=0-1\n"
    subprocess.run(
        ["bash", "-c", f"{script}dlrun_grant 2 0,4000 1 0 0 1 CUDA_VISIBLE_DEVICES 0,1"],
        env={
            "PATH": os.environ["PATH"],
            "DLRUN_RUN_DIR": str(tmp_path),
            "DLRUN_HOST": "n7",
            "DLRUN_RANK": "2",
            "DLRUN_LOCAL_RANK": "0",
            "DLRUN_LOCAL_SIZE": "2",
            "CUDA_VISIBLE_DEVICES": "1,3",
        },
        check=True,
        timeout=60,
    )
    (line,) = divisions(tmp_path)
    assert line.startswith(
        "n7: core 4000 of the plan was not granted to this job; ranks 2-3 divide CPUs 0-1: "
    )
    assert line.endswith("0 (GPU 1); 1 (GPU 3)")


def test_an_unreadable_record_is_left_out(tmp_path):
    (tmp_path / "placement").mkdir()
    (tmp_path / "placement" / "n1").write_text('{"host": "n1"')
    (tmp_path / "placement" / "n2").write_text("[]")
    assert divisions(tmp_path) == []
