"""The processes of a rank and what they have used: each second of CPU time counts once, whoever has it when."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from dlrun.node.usage.ranks import Ranks

BURN = """
import subprocess, sys
work = "import time\\nwhile time.process_time() < 1.1: pass\\nprint(1, flush=True)\\ninput()"
child = subprocess.Popen([sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
print("burnt", flush=True)
input()
child.communicate(b"\\n")
print("waited", flush=True)
input()
"""
"""Its child burns a little more than a second: the kernel counts ticks of 10 ms."""
SHELL = 'env "DLRUN_PROCESS=1-0 rank 0" "$@"; :'
"""As `rank.sh` starts the program: the shell itself has no mark."""


THREADS = """
import os, threading
def stay(core):
    os.sched_setaffinity(0, [core])
    until = time.monotonic() + 0.2
    while time.monotonic() < until: pass
    ready.wait()
    input()
import time
cores = sorted(os.sched_getaffinity(0))
ready = threading.Barrier(3)
for core in cores[:2]:
    threading.Thread(target=stay, args=(core,), daemon=True).start()
ready.wait()
print("bound", flush=True)
input()
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
@pytest.mark.parametrize("count", [1, 2])
def test_the_cores_on_which_a_rank_ran(tmp_path, count):
    """Those of its program's threads, and none from before it was bound."""
    cores = sorted(os.sched_getaffinity(0))
    marks = {"DLRUN_RUN_DIR": str(tmp_path), "DLRUN_RUN_ID": "1-0"}
    found = Ranks("1-0", str(tmp_path))
    program = THREADS if count == 2 else "print('bound', flush=True)\ninput()"
    bound = ["taskset", "-c", str(cores[1]), sys.executable] if count == 1 else [sys.executable]
    line = ["bash", "-c", SHELL, "rank.sh", *bound, "-c", program]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(line, env={**os.environ, **marks}, **pipes) as shell:
        assert shell.stdout.readline() == b"bound\n"
        found.sample()
        (rank,) = found.ranks.values()
        assert rank.ran == set()
        found.sample()
        assert rank.ran >= set(cores[2 - count : 2])
        assert rank.ran <= (set(cores[1:2]) if count == 1 else set(cores))
        shell.communicate(b"\n")


@pytest.mark.slow
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
