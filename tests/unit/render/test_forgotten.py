"""A trapped signal in the moment in which a child ends: `wait` of bash 5.2 drops its end, and no other `wait` may hang for it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.library import BASH, LIBRARY, link

JOB = """\
set -euo pipefail
export DLRUN_JOB_DIR={place} DLRUN_RUN_DIR={place} DLRUN_HOSTS={place}/hosts
export DLRUN_JOB_ID=7 DLRUN_RUN_ID=7.0 DLRUN_RESTART=0 DLRUN_NODES=1
source {library}/job.sh
_dlrun_begin_clock
trap : USR2
"""
PAUSE = """\
sleep 60 &
_dlrun_main=$!
sleep() {{ command sleep "${{1/#1/60}}"; }}
_dlrun_pause
"""
"""The second that it waits is a minute, in which this test comes to it on any machine."""
MAIN = """\
sleep 600 &
sleep() {{ command sleep 60; }}
sleep &
_dlrun_main=$!
wait -n || true
_dlrun_reap "$_dlrun_main" 1
"""
RANKS = """\
source {library}/start.sh
trap '_dlrun_signalled=1' USR2
command sleep 600 &
command sleep 60 &
_dlrun_ranks=("$!")
_dlrun_wait_for_ranks :
"""
RANK = """\
source {library}/rank.sh
command sleep 600 &
command sleep 60 &
_dlrun_child=$!
_dlrun_wait_for_program
"""
TRIES = 60


def children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def state(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return "gone"


def end_and_signal(shell: int, child: int) -> bool:
    """Kill the child of a shell that waits for it, and signal the shell before it runs again; false if it ran in between.

    All three have one core, and the shell runs only when neither of the others does.
    """
    here = os.sched_getaffinity(0)
    core = {min(here)}
    try:
        for pid in (0, shell, child):
            os.sched_setaffinity(pid, core)
        os.sched_setscheduler(shell, os.SCHED_IDLE, os.sched_param(0))
        os.kill(child, signal.SIGKILL)
        while state(child) not in ("Z", "gone"):
            pass
        both = state(child) == "Z"
        os.kill(shell, signal.SIGUSR2)
        with suppress(PermissionError):  # it runs anyhow, as soon as nothing else does
            os.sched_setscheduler(shell, os.SCHED_OTHER, os.sched_param(0))
    finally:
        os.sched_setaffinity(0, here)
    return both


@pytest.mark.parametrize(
    ("waits", "fails"),
    [(PAUSE, False), (MAIN, True), (RANKS, True), (RANK, True)],
    ids=["pause", "main", "ranks", "rank"],
)
def test_no_wait_hangs_for_a_child_whose_end_is_forgotten(tmp_path, waits, fails):
    """And it is no success: the child was killed."""
    for attempt in range(TRIES):
        place = tmp_path / str(attempt)
        for directory in ("failures", "ended", "logs"):
            (place / directory).mkdir(parents=True)
        link(place)
        code = (JOB + waits).format(place=place, library=LIBRARY)
        with subprocess.Popen([BASH, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as shell:
            deadline = time.monotonic() + 30
            while len(children(shell.pid)) < 2 and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(0.1)  # until it waits
            both = end_and_signal(shell.pid, children(shell.pid)[-1])
            try:
                shell.wait(20)
            finally:
                for pid in (*children(shell.pid), shell.pid):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
        assert (shell.returncode != 0) == fails
        if both:
            break
    else:
        pytest.skip("the shell ran before the signal each time")
