"""A job that is asked to end again while it begins to end: schedulers send signals to each process, and some of them twice."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.library import BASH, LIBRARY, link

JOB = """\
set -euo pipefail
source {library}/job.sh
dlrun_source {part}
_dlrun_begin_clock
_dlrun_arm
dlrun_launch sleep 600
again() {{ if ((++seen == {at})); then kill -{signal} "$$"; fi; }}
seen=0
set -o functrace
trap again DEBUG # before each of the following commands, also those of traps
kill -{signal} "$$"
dlrun_wait
"""


@pytest.mark.parametrize(
    ("part", "signal", "code"),
    [
        ("endings", "TERM", 143),
        ("endings", "INT", 130),
        ("endings", "USR1", 138),
        ("gridengine", "USR2", 143),
    ],
)
def test_the_end_is_recorded(tmp_path, part, signal, code):
    """Whichever command of the first ones the second signal comes before."""
    ends = {}
    for at in range(1, 13):
        place = tmp_path / str(at)
        for directory in ("failures", "ended", "logs"):
            (place / directory).mkdir(parents=True)
        link(place)
        given = {"PATH": os.environ["PATH"], "DLRUN_JOB_DIR": place, "DLRUN_RUN_DIR": place, "DLRUN_JOB_ID": 7,
                 "DLRUN_RUN_ID": f"7-{at}.0", "DLRUN_RESTART": 0, "DLRUN_HOSTS": place / "hosts",
                 "_dlrun_host": "n1"}  # fmt: skip
        done = subprocess.run(
            [BASH, "-c", JOB.format(library=LIBRARY, part=part, signal=signal, at=at)],
            env={name: str(value) for name, value in given.items()},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert f"job 7 ended with exit code {code}" in done.stderr + done.stdout, (at, done)
        ends[at] = (done.returncode, '"state": "ended"' in (place / "state.json").read_text())
    assert set(ends.values()) == {(code, True)}, ends


UNREAD = """\
set -euo pipefail
source {library}/job.sh
dlrun_source endings
_dlrun_begin_clock
_dlrun_arm
dlrun_launch sleep 600
read -r # until nobody reads what this writes
kill -TERM "$$"
dlrun_wait
"""


@pytest.mark.parametrize("ignored", [False, True])
def test_the_end_is_recorded_where_nothing_reads_the_log_any_more(tmp_path, ignored):
    """As when the node of the program is lost that has started this script on another one; Flux's broker ignores SIGPIPE."""
    for directory in ("failures", "ended", "logs"):
        (tmp_path / directory).mkdir(parents=True)
    link(tmp_path)
    given = {"PATH": os.environ["PATH"], "DLRUN_JOB_DIR": tmp_path, "DLRUN_RUN_DIR": tmp_path, "DLRUN_JOB_ID": 7,
             "DLRUN_RUN_ID": "7.0", "DLRUN_RESTART": 0, "DLRUN_HOSTS": tmp_path / "hosts",
             "_dlrun_host": "n1"}  # fmt: skip
    running = subprocess.Popen(
        [BASH, "-c", UNREAD.format(library=LIBRARY)], env={name: str(value) for name, value in given.items()},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, restore_signals=not ignored,
    )  # fmt: skip
    running.stdout.close()
    running.stdin.write(b"\n")
    running.stdin.close()
    assert running.wait(60) == 143
    record = json.loads((tmp_path / "state.json").read_text())
    assert (record["state"], record["exit_code"], record["reason"]) == ("ended", 143, "asked to end")
