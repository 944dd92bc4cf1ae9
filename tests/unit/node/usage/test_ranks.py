"""The processes of a rank and what they have used: each second of CPU time counts once, whoever has it when."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from dlrun.node.usage.ranks import Ranks

BURN = """
import subprocess, sys
work = "import time\\nwhile time.process_time() < 1: pass\\nprint(1, flush=True)\\ninput()"
child = subprocess.Popen([sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
print("burnt", flush=True)
input()
child.communicate(b"\\n")
print("waited", flush=True)
input()
"""
SHELL = 'env "DLRUN_PROCESS=1-0 rank 0" "$@"; :'
"""As `rank.sh` starts the program: the shell itself has no mark."""


@pytest.mark.parametrize("look", [Ranks.update_cpu_time, Ranks.sample])
def test_a_child_that_ends_between_two_samples_counts_once(tmp_path, look):
    marks = {"DLRUN_RUN_DIR": str(tmp_path), "DLRUN_RUN_ID": "1-0"}
    found = Ranks("1-0", str(tmp_path))
    line = ["bash", "-c", SHELL, "rank.sh", sys.executable, "-c", BURN]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(line, env={**os.environ, **marks}, **pipes) as shell:
        assert shell.stdout.readline() == b"burnt\n"
        found.sample()
        (rank,) = found.ranks.values()
        assert rank.shell == shell.pid
        before = rank.cpu
        assert before >= 1
        shell.stdin.write(b"\n")
        shell.stdin.flush()
        assert shell.stdout.readline() == b"waited\n"
        look(found)
        shell.stdin.write(b"\n")
    assert before <= rank.cpu < before + 0.5
