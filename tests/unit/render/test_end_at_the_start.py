"""A rank that is asked to end at the very moment when it starts its program: another one has failed at once."""

from __future__ import annotations

import os
import subprocess

from tests.library import BASH, LIBRARY

RANK = """\
source {library}/rank.sh
source {library}/left.sh
_dlrun_count_memory_kills() {{ kill -TERM "$$"; }} # what runs between the trap and the start of the program
dlrun_run sleep 600
"""


def test_it_does_not_go_on(tmp_path):
    for directory in ("failures", "ended", "logs"):
        (tmp_path / directory).mkdir()
    (tmp_path / "lib").symlink_to(LIBRARY)
    given = {
        "DLRUN_JOB_DIR": tmp_path, "DLRUN_RUN_DIR": tmp_path, "DLRUN_HOSTS": tmp_path / "hosts", "DLRUN_JOB_ID": 7,
        "DLRUN_RUN_ID": f"7-{tmp_path.name}.0", "DLRUN_RESTART": 0, "DLRUN_ROLE": "rank", "DLRUN_RANK": 1,
        "DLRUN_LOCAL_RANK": 0, "DLRUN_WORLD_SIZE": 2, "DLRUN_HOST": "n2",
    }  # fmt: skip
    subprocess.run(
        [BASH, "-c", RANK.format(library=LIBRARY)],
        env={"PATH": os.environ["PATH"], **{key: str(value) for key, value in given.items()}},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert not list((tmp_path / "failures").iterdir()), "who is asked to end has not failed"
