"""What starting ranks on this machine rests on."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from dlrun.affinity import bind as affinity_bind


@pytest.mark.parametrize("told", [True, False], ids=["the system tells", "looked at now and then"])
def test_the_end_of_any_rank_is_noticed(told, monkeypatch):
    if not told:
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    sleeper = subprocess.Popen(["sleep", "600"], text=True)
    ends = subprocess.Popen(["true"], text=True)
    try:
        while ends.poll() is None:
            affinity_bind._wait_for_any([sleeper, ends])
        assert sleeper.poll() is None
    finally:
        sleeper.kill()
        sleeper.wait()


SHOW = "from dlrun.affinity.bind import launcher_cpus; print(*sorted(launcher_cpus()))"


def test_what_started_a_rank_is_found_above_other_ranks():
    """A rank that is a shell with a mask of its own, and dlrun below it: the launcher is above both."""
    inner = f"{sys.executable} -c '{SHOW}'; true"
    mine = sorted(os.sched_getaffinity(0))
    rank = {**os.environ, "OMPI_COMM_WORLD_LOCAL_RANK": "0"}
    argv = ["taskset", "--cpu-list", str(mine[0]), "bash", "-c", inner]
    done = subprocess.run(argv, env=rank, capture_output=True, text=True, check=True, timeout=60)
    assert [int(cpu) for cpu in done.stdout.split()] == mine
