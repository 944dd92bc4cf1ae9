"""What a job starts before the training program: each process costs a shared file system questions on every node."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

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
    environment = {"PATH": str(tools), "XDG_RUNTIME_DIR": str(tmp_path), "USER": "nobody"}
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
    assert started == ["mkdir", "mv", "mkdir", "mv", "bash", "taskset"]
    assert not list((tmp_path / f"dlrun-ports-{os.getuid()}").iterdir())


@pytest.mark.skipif(
    shutil.which("strace") is None, reason="strace counts what a rank asks the file system for"
)
@pytest.mark.parametrize(
    "more", ["", "checkpoint: {signal: USR1}\nhang: 10m\nverify: warn\non_failure: {requeue: 1}\n"]
)
def test_a_rank_asks_the_shared_file_system_for_four_things_at_most(tmp_path, more):
    """On a parallel file system each costs the one metadata server as much for every rank of the job."""
    spec = f"framework: torch\ncommand: [/bin/true]\nresources: {{ranks_per_node: 1, walltime: 1h}}\n{more}"
    job = tmp_path / "job"
    job.mkdir()
    write_job(plan_of(tmp_path, spec, LOCAL, directory="/"), job)
    for name in ("logs", "failures", "idle"):
        (job / name).mkdir()
    told = {"JOB_DIR": job, "RUN_DIR": job, "RUN_ID": f"{os.getpid()}.0", "RANK": 0, "LOCAL_RANK": 0, "NODES": 1,
            "MASTER_ADDR": "here", "MASTER_PORT": 20000, "HOSTS": job / "hosts"}  # fmt: skip
    environment = {
        "PATH": os.environ["PATH"],
        **{f"DLRUN_{name}": str(value) for name, value in told.items()},
    }
    command = ["strace", "-f", "-e", "trace=%file", "-o", tmp_path / "calls", "bash", job / "rank.sh", "rank"]
    subprocess.run(command, cwd="/", env=environment, check=True, timeout=60)
    before, _, _ = (tmp_path / "calls").read_text().partition('execve("/bin/true"')
    calls = [line.split(None, 1)[1] for line in before.splitlines() if f'"{job}/' in line]
    assert len(calls) <= 4, calls
    assert [
        name for name in ("lib/rank.sh", "logs/rank-0.log") if any(f'/{name}"' in call for call in calls)
    ] != []
