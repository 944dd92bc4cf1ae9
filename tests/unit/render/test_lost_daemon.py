"""Slurm's daemon of a step, which starts ranks and the job's script: when it is killed they end, with a note of the cause."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests import processes
from tests.library import BASH, LIBRARY, link

RANK = """\
source {library}/rank.sh
source {library}/left.sh
echo "$$" >{place}/shell
dlrun_run sleep 600
"""
JOB = """\
set -euo pipefail
source {library}/job.sh
_dlrun_begin_clock
_dlrun_arm
scancel() {{ echo "$*" >{place}/cancelled; }}
dlrun_launch bash -c 'echo begun >{place}/shell; exec sleep 600'
dlrun_wait
"""


def daemon(place: Path, name: str, code: str, lasts: int = 0, **more: object) -> subprocess.Popen[str]:
    """A program of a name that runs bash code in a shell below it, once that has begun; it outlives it by so many seconds."""
    for directory in ("failures", "ended", "logs"):
        (place / directory).mkdir()
    link(place)
    (place / "code.sh").write_text(code.format(library=LIBRARY, place=place))
    shutil.copy(shutil.which(BASH) or BASH, place / name)
    given = {
        "DLRUN_JOB_DIR": place, "DLRUN_RUN_DIR": place, "DLRUN_HOSTS": place / "hosts", "DLRUN_JOB_ID": 7,
        "DLRUN_RUN_ID": f"7-{place.name}.0", "DLRUN_RESTART": 0, "DLRUN_ROLE": "rank", "DLRUN_RANK": 1,
        "DLRUN_LOCAL_RANK": 0, "DLRUN_WORLD_SIZE": 2, "DLRUN_HOST": "n2", "_dlrun_host": "n1",
        "SLURM_JOB_ID": 7, "SLURM_STEP_ID": 0, **more,
    }  # fmt: skip
    with (place / "said").open("w") as said:
        running = subprocess.Popen(
            [place / name, "-c", f"{BASH} {place}/code.sh & wait; sleep {lasts}"],
            env={"PATH": os.environ["PATH"], **{key: str(value) for key, value in given.items()}},
            stdout=said, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
    until(lambda: (place / "shell").exists() and (place / "shell").read_text())
    return running


def until(so):
    deadline = time.monotonic() + 60
    while not so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def gone(session: int) -> bool:
    return not processes.of_session(session)


@pytest.mark.slow
def test_a_rank_whose_daemon_is_gone_before_its_program_runs_ends_too(tmp_path):
    wait = "until [[ -e {place}/go ]]; do sleep 0.05; done\ndlrun_run"
    running = daemon(tmp_path, "slurmstepd", RANK.replace("dlrun_run", wait))
    running.kill()
    running.wait()
    (tmp_path / "go").touch()
    note = tmp_path / "failures" / "rank-1"
    until(lambda: note.exists() and "slurmstepd on n2" in note.read_text())
    until(lambda: gone(running.pid))


@pytest.mark.slow
def test_a_rank_whose_daemon_is_killed_ends_and_notes_it(tmp_path):
    running = daemon(tmp_path, "slurmstepd", RANK)
    note = tmp_path / "failures" / "rank-1"
    running.kill()
    running.wait()
    until(lambda: gone(running.pid))
    said = note.read_text().splitlines()[0].split(" ", 1)[1]
    assert said == "rank 1 n2 1 node failed: slurmstepd on n2, which had started rank 1, is gone"


STUBBORN = RANK.replace(
    "sleep 600",
    """bash -c 'setsid bash -c "trap \\"\\" TERM; : >{place}/apart; sleep 600" & trap "" TERM; sleep 600'""",
)
"""A program that ignores SIGTERM, as does its child in a session of its own."""


def of_run(place: Path) -> list[int]:
    """What has this run in its environment, in any session."""
    mark = f"DLRUN_RUN_DIR={place}".encode()
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with suppress(OSError):
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    found.append(int(process.name))
    return found


@pytest.mark.parametrize(
    "which",
    ["daemon", pytest.param("shell", marks=pytest.mark.slow), pytest.param("both", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("flux-shell", marks=pytest.mark.slow),
        pytest.param("orted", marks=pytest.mark.slow),
        "slurmstepd",
    ],
)
def test_nothing_of_a_rank_stays_when_what_started_it_is_killed_or_its_shell(tmp_path, name, which):
    running = daemon(tmp_path, name, STUBBORN, DLRUN_GRACE=1)
    shell = int((tmp_path / "shell").read_text())
    until(lambda: (tmp_path / "apart").exists() and len(standbys(tmp_path)) == 1)
    for pid in {"daemon": [running.pid], "shell": [shell], "both": [running.pid, shell]}[which]:
        os.kill(pid, signal.SIGKILL)
    running.wait()
    until(lambda: not of_run(tmp_path))
    note = tmp_path / "failures" / "rank-1"
    assert note.exists() == ((name, which) == ("slurmstepd", "daemon"))


def test_what_another_rank_has_left_ends_too_when_the_daemon_outlives_the_first_ranks_shell(tmp_path):
    """Slurm's daemon kills the ranks and is there a while longer; a process that one has started in between it does not see."""
    left = """DLRUN_PROCESS="$DLRUN_RUN_ID rank 2" setsid bash -c 'trap "" TERM; : >{place}/apart; exec sleep 600' &"""
    code = RANK.replace("dlrun_run", f"{left}\ndlrun_run")
    running = daemon(tmp_path, "slurmstepd", code, lasts=5, DLRUN_GRACE=1)
    until(lambda: (tmp_path / "apart").exists() and len(standbys(tmp_path)) == 1)
    os.kill(int((tmp_path / "shell").read_text()), signal.SIGKILL)
    running.wait()
    until(lambda: not of_run(tmp_path))
    assert not (tmp_path / "failures" / "rank-1").exists()


def standbys(place: Path) -> list[int]:
    return processes.matching(f"{re.escape(str(place))}/lib/standby.sh")


def test_a_rank_that_ends_leaves_no_standby(tmp_path):
    running = daemon(tmp_path, "orted", RANK.replace("sleep 600", "sleep 0.5"))
    running.wait()
    until(lambda: not of_run(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("requeued", [False, True])
def test_a_job_whose_daemon_is_killed_ends_and_reports_it(tmp_path, requeued):
    again = "dlrun_source endings\ndlrun_requeue 1 node_failed touch {place}/again\n" if requeued else ""
    code = JOB.replace("dlrun_launch", f"{again}dlrun_launch", 1)
    running = daemon(tmp_path, "slurmstepd", code)
    running.kill()
    running.wait()
    until(lambda: gone(running.pid))
    said = (tmp_path / "said").read_text()
    assert "slurmstepd, which had started this script on n1, is gone" in said
    record = (tmp_path / "state.json").read_text()
    assert '"reason": "node failed"' in record
    assert (tmp_path / "cancelled").exists() != requeued, said
    assert (tmp_path / "again").exists() == requeued
    assert f'"state": "{"requeued" if requeued else "ended"}"' in record
