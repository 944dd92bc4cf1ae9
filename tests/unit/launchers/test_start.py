"""What a job starts before the training program: each process costs a shared file system questions on every node."""

from __future__ import annotations

import os
import shutil
import subprocess

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
    assert started == ["mkdir", "mv", "mkdir", "bash", "taskset"]
    assert not list((tmp_path / f"dlrun-ports-{os.getuid()}").iterdir())
