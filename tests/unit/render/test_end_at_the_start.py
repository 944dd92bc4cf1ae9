"""A rank that is asked to end at the very moment when it starts its program, or together with it."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from tests.library import BASH, LIBRARY, link

RANK = """\
source {library}/rank.sh
source {library}/left.sh
"""
AT_ONCE = """\
_dlrun_count_memory_kills() { kill -TERM "$$"; } # what runs between the trap and the start of the program
dlrun_run sleep 600
"""


def start(place: Path, code: str) -> subprocess.Popen[str]:
    """A shell that has rank.sh's functions and runs the code, in a process group of its own."""
    for directory in ("failures", "ended", "logs"):
        (place / directory).mkdir(exist_ok=True)
    if not (place / "lib").exists():
        link(place)
    given = {
        "DLRUN_JOB_DIR": place, "DLRUN_RUN_DIR": place, "DLRUN_HOSTS": place / "hosts", "DLRUN_JOB_ID": 7,
        "DLRUN_RUN_ID": f"7-{place.name}.0", "DLRUN_RESTART": 0, "DLRUN_ROLE": "rank", "DLRUN_RANK": 1,
        "DLRUN_LOCAL_RANK": 0, "DLRUN_WORLD_SIZE": 2, "DLRUN_HOST": "n2",
    }  # fmt: skip
    return subprocess.Popen(
        [BASH, "-c", RANK.format(library=LIBRARY) + code],
        env={"PATH": os.environ["PATH"], **{key: str(value) for key, value in given.items()}},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip


def test_it_does_not_go_on(tmp_path):
    start(tmp_path, AT_ONCE).communicate(timeout=300)
    assert not list((tmp_path / "failures").iterdir()), "who is asked to end has not failed"


def test_its_exit_code_is_that_of_the_signal_which_ended_its_program_at_the_same_time(tmp_path):
    """As Flux's shell and mpirun send it, to the group: bash may then have lost how its child ended, and said 255."""
    code = "_dlrun_began=''; exec {_dlrun_launcher}>&1\ndlrun_run bash -c 'echo begun; exec sleep 600'"
    codes = set()
    for _ in range(20):
        running = start(tmp_path, code)
        assert running.stdout.readline() == "begun\n"
        os.killpg(running.pid, signal.SIGTERM)
        running.communicate(timeout=300)
        codes.add(running.returncode)
    assert codes == {143}
