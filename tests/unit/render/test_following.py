"""Parts of a job's script for PBS: another job follows this one, once; after a failure, which nodes are left."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[2] / "golden"
RESTARTED = (GOLDEN / "openpbs-openmpi-whole-job" / "job.sh").read_text()
BY_SSH = (GOLDEN / "openpbs-ssh-sweep" / "job.sh").read_text()


def function(script: str, name: str) -> str:
    found = re.search(rf"^{name}\(\) \{{.*?^\}}$", script, re.MULTILINE | re.DOTALL)
    assert found, f"no function {name}"
    return found[0]


def run(place: Path, script: str, **programs: str) -> str:
    """What a script prints where these programs are found first."""
    for name, text in programs.items():
        (place / name).write_text(f"#!/bin/bash\n{text}\n")
        (place / name).chmod(0o755)
    line = f'run_dir={place} DLRUN_JOB_DIR={place} PATH={place}:$PATH; say() {{ echo "$*"; }}\n{script}'
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


@pytest.mark.parametrize(
    ("qsub", "job", "followed"), [("echo 10.login", "10.login\n", "9.login\n"), ("exit 1", None, None)]
)
def test_a_job_that_another_follows_is_marked_before_that_can_start(tmp_path, qsub, job, followed):
    seen = f"cat {tmp_path}/.followed >{tmp_path}/seen; {qsub}"
    script = f"DLRUN_JOB_ID=9.login DLRUN_RESTART=0; {function(RESTARTED, 'resubmit')}; resubmit || true"
    run(tmp_path, script, qsub=seen)
    assert (tmp_path / "seen").read_text() == "9.login\n"
    texts = [
        path.read_text() if path.exists() else None for path in (tmp_path / "job-id", tmp_path / ".followed")
    ]
    assert texts == [job, followed]


def test_a_job_that_another_has_followed_does_nothing(tmp_path):
    """PBS puts it back when a node has died, also after it had submitted the next one."""
    (tmp_path / ".followed").write_text("9.login\n")
    own = RESTARTED.replace(
        "export DLRUN_JOB_DIR=/home/ada/jobs/openpbs-openmpi-whole-job", "export DLRUN_JOB_DIR"
    )
    said = run(tmp_path, f"export PBS_JOBID=9.login; {own}", qstat="true")
    assert said == "dlrun: job 9.login has ended, and another has followed it: nothing is to be done\n"
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize(
    ("answers", "lost"),
    [
        ({}, ""),
        ({"n2": "exit 255"}, "n2"),
        ({"n2": "echo 'Permission denied (publickey).' >&2; exit 255"}, ""),
        ({"n2": "echo 'Host key verification failed.' >&2; exit 255"}, ""),
        ({"n1": "exit 255", "n2": "exit 255"}, ""),  # then it is ssh itself
    ],
)
def test_which_nodes_are_lost(tmp_path, answers, lost):
    (tmp_path / "hosts").write_text("n1\nn2\n")
    (tmp_path / "failures").mkdir()
    (tmp_path / "failures" / "rank-0").write_text(
        "1000 rank 0 n1 1\n"
    )  # its connection to the other one broke
    functions = [function(BY_SSH, name) for name in ("some_failed", "failed_first", "there", "lost_nodes")]
    cases = " ".join(f"{host}) {answer} ;;" for host, answer in answers.items())
    script = "\n".join(
        [f"DLRUN_HOSTS={tmp_path}/hosts DLRUN_NODES=2 reason=", *functions, "lost_nodes; echo $reason"]
    )
    said = run(tmp_path, script, ssh=f"case $1 in {cases} esac; [[ $2 == true ]]")
    first = run(tmp_path, "\n".join([*functions, "failed_first"]))
    if lost:
        assert said.splitlines() == [f"not answering any more: {lost}", "node failed"]
        assert first == f"999 node 0 {lost} 255 node failed: {lost} does not answer any more\n"
    else:
        assert (said, first) == ("\n", "1000 rank 0 n1 1\n")
