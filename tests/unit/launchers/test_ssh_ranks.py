"""Ranks that were started by ssh end with their job, also where their connection is cut off and nobody tells them."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.library import BASH, LIBRARY, call


@contextmanager
def shell_on_a_node(tmp_path, command: str) -> Iterator[subprocess.Popen[str]]:
    """What a node's shell reads, with a look at the job every second; its input stays open, as a dead connection's does."""
    lines = f"source {LIBRARY}/start.sh; source {LIBRARY}/ssh.sh; DLRUN_RANK=1 DLRUN_LOCAL_RANK=0 _dlrun_on_host {command}"
    code = call(tmp_path, lines).stdout.replace("read -t 60", "read -t 1")
    assert "read -t 1" in code
    process = subprocess.Popen([BASH, "-s"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)})  # fmt: skip
    with process:
        process.stdin.write(code)
        process.stdin.flush()
        yield process


@pytest.mark.slow
@pytest.mark.parametrize(
    "after",
    [('"running"', '"ended"'), ('"restarts": 0', '"restarts": 1')],
    ids=["over", "begun-again"],
)
def test_a_rank_ends_when_its_job_is_over(tmp_path, after):
    call(tmp_path, "_dlrun_record running")
    running = (tmp_path / "state.json").read_text()
    with shell_on_a_node(tmp_path, "sleep 600") as rank:
        with pytest.raises(subprocess.TimeoutExpired):
            rank.wait(4)  # it has looked three times by then
        assert running.count(after[0]) == 1
        (tmp_path / "state.json").write_text(running.replace(*after))
        assert rank.wait(60) == 143


@pytest.mark.slow
def test_a_file_that_cannot_be_read_ends_no_rank(tmp_path):
    with shell_on_a_node(tmp_path, "sleep 4") as rank:
        assert rank.wait(60) == 0


@pytest.mark.slow
def test_what_a_killed_rank_leaves_is_ended(tmp_path):
    """Its shell could not do that itself."""
    call(tmp_path, "_dlrun_record running")
    leaves = "env DLRUN_PROCESS='7.0 rank 1' bash -c 'sleep 601 & echo $!; kill -KILL $$'"
    with shell_on_a_node(tmp_path, leaves) as rank:
        left = Path("/proc", rank.stdout.readline().strip())
        assert rank.wait(60) == 137
        await_gone(left)


def test_what_a_killed_rank_of_another_cluster_left_goes_on(tmp_path):
    call(tmp_path, "_dlrun_record running")
    stranger = {"PATH": os.environ["PATH"], "DLRUN_PROCESS": "7.0 rank 1", "DLRUN_RUN_DIR": "/srv/elsewhere"}
    with subprocess.Popen(["sleep", "600"], env=stranger) as process:
        with shell_on_a_node(tmp_path, "bash -c 'kill -KILL $$'") as rank:
            assert rank.wait(60) == 137
        code = process.poll()
        process.kill()
    assert code is None


def await_gone(process: Path) -> None:
    end = time.monotonic() + 60
    while process.exists():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_rank_is_signalled_and_ends_with_its_connection(tmp_path):
    call(tmp_path, "_dlrun_record running")
    with shell_on_a_node(
        tmp_path, "bash -c \"trap 'echo told' USR1; echo ready; while :; do sleep 0.1; done\""
    ) as rank:
        assert rank.stdout.readline() == "ready\n"
        rank.stdin.write("USR1\n")
        rank.stdin.flush()
        assert rank.stdout.readline() == "told\n"
        rank.stdin.close()
        assert rank.wait(60) == 143
