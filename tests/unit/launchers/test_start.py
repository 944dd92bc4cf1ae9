"""What a job starts before the training program: each process costs a shared file system questions on every node."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dlrun.jobs.submission import node_archive
from dlrun.plan.runtime_checks import SAMPLER
from tests.making import LOCAL, plan_of, write_job

TOOLS = "bash date grep mkdir mv rm sleep taskset"
"""All that a job which goes well runs."""


def test_a_job_starts_no_more_than_it_must(tmp_path):
    """Every tool notes its name and is run; others are not found, which the job would not survive."""
    tools, notes = tmp_path / "tools", tmp_path / "notes"
    tools.mkdir()
    for tool in TOOLS.split():
        (tools / tool).write_text(f'#!/bin/bash\necho {tool} >>{notes}\nexec {shutil.which(tool)} "$@"\n')
        (tools / tool).chmod(0o755)
    spec = f"framework: torch\ncommand: [/bin/bash, -c, 'echo TRAINING >>{notes}']\nresources: {{ranks_per_node: 1}}"
    write_job(plan_of(tmp_path, spec, LOCAL, directory=str(tmp_path)), tmp_path)
    environment = {
        "PATH": str(tools),
        "XDG_RUNTIME_DIR": str(tmp_path),
        "USER": "nobody",
        "TMPDIR": str(tmp_path),
    }
    done = subprocess.run(
        ["/bin/bash", "job.sh"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    printed = done.stdout + done.stderr + (tmp_path / "logs" / "rank-0.log").read_text()
    assert done.returncode == 0, printed
    assert "not found" not in printed
    before, _, _ = notes.read_text().partition("TRAINING\n")
    started = [name for name in before.split() if name != "sleep"]  # the watch's second, beside the ranks
    # The last two: the directory of caches and those of the tools, in the first rank of a node that has none.
    assert started == ["mkdir", "mkdir", "bash", "taskset", "mkdir", "mkdir"]
    assert not list((tmp_path / f"dlrun-ports-{os.getuid()}").iterdir())


COUNTED = pytest.mark.needs("strace")  # counts what a rank asks the file system for


def calls_of_a_rank(tmp_path, more: str, command: str) -> list[str]:
    """The calls with a file of the job directory of the first rank of a node, and of all that it starts."""
    spec = f"framework: torch\ncommand: {command}\nresources: {{ranks_per_node: 1, walltime: 1h}}\n{more}"
    # Named as by dlrun. In a directory that its user has named, rank 0 alone reads one file more (`_dlrun_name_run`).
    job = tmp_path / "job-20261126-120000-01ab"
    job.mkdir()
    write_job(plan_of(tmp_path, spec, LOCAL, directory="/"), job)
    (job / SAMPLER).write_bytes(node_archive.sampler())
    for name in ("logs", "failures", "idle", "ended", "usage"):
        (job / name).mkdir(exist_ok=True)
    told = {"JOB_DIR": job, "RUN_DIR": job, "RUN_ID": f"{os.getpid()}.0", "RANK": 0, "LOCAL_RANK": 0, "NODES": 1,
            "MASTER_ADDR": "here", "MASTER_PORT": 20000, "HOSTS": job / "hosts"}  # fmt: skip
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        **{f"DLRUN_{name}": str(value) for name, value in told.items()},
    }
    words = ["strace", "-f", "-e", "trace=%file", "-o", tmp_path / "calls", "bash", job / "rank.sh", "rank"]
    subprocess.run(words, cwd="/", env=environment, check=True, timeout=60)
    lines = [line.split(None, 1)[1] for line in (tmp_path / "calls").read_text().splitlines()]
    return [line for line in lines if f'"{job}/' in line or line.startswith('execve("/bin/')]


@COUNTED
@pytest.mark.parametrize(
    "more", ["", "checkpoint: {signal: USR1}\nhang: 10m\nverify: warn\non_failure: {requeue: 1}\n"]
)
def test_a_rank_asks_the_shared_file_system_for_four_things_at_most(tmp_path, more):
    """On a parallel file system each costs the one metadata server as much for every rank of the job."""
    calls = calls_of_a_rank(tmp_path, f"usage: false\n{more}", "[/bin/true]")
    (began,) = [number for number, call in enumerate(calls) if call.startswith('execve("/bin/true"')]
    # The standby is one for each node, and may open its file before the program begins or after.
    before = [one for one in calls[:began] if not (one.startswith("execve") or "/standby.sh" in one)]
    assert len(before) <= 4, before
    assert [
        name for name in ("lib/rank.sh", "logs/rank-0.log") if any(f'/{name}"' in call for call in before)
    ] != []


@pytest.mark.slow
@COUNTED
def test_the_sampler_asks_it_for_two_more_on_each_node(tmp_path):
    """Its one file, and what it writes: nothing for each sample."""
    until_it_writes = (
        "[bash, -c, 'cd $DLRUN_RUN_DIR; until [[ -n $(cat usage/* 2>/dev/null) ]]; do sleep 0.2; done']"
    )
    calls = calls_of_a_rank(tmp_path, "", until_it_writes)
    of_sampler = [call for call in calls if "/usage" in call and not call.startswith("execve")]
    assert len(of_sampler) == 2, of_sampler
    assert not [call for call in calls if "/idle/" in call], "that is for jobs whose progress is watched"
