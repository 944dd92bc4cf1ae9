"""Stacks of `docs/stacks` that can run on CPUs: two ranks of this machine, started by dlrun."""

from __future__ import annotations

import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
STACKS = os.environ.get("DLRUN_TEST_STACKS")  # now: no test sees the user's own variables
THREADS = """
import atexit, os

@atexit.register
def report():
    names = [open(f"/proc/self/task/{task}/comm").read().strip() for task in os.listdir("/proc/self/task")]
    print("the interpreter ends beside", *sorted(name for name in names if "gloo" in name), flush=True)
"""
"""A `sitecustomize` with which each Python of a job names the threads of Gloo that live on when its interpreter ends."""


def ran(dlrun, python: str, name: str, *arguments: str) -> str:
    """Run an example on two ranks, and return their output; no thread of Gloo may be left when an interpreter ends.

    A thread that frees a tensor while the interpreter ends aborts the process ("terminate called without an active
    exception"): a few of a hundred runs on a busy machine, so what is looked at is the threads and not the end.
    """
    words = ", ".join([python, str(EXAMPLES / name / "train.py"), *arguments])
    (dlrun.place / "sitecustomize.py").write_text(THREADS)
    spec = dlrun.spec(
        f"name: {name}\nframework: torch\ncommand: [{words}]\nresources: {{ranks_per_node: 2, walltime: 10m}}\n"
        f"environment: {{variables: {{PYTHONPATH: {dlrun.place}}}}}\n"
    )
    print(dlrun("submit", spec, "--wait").stdout)
    text = "".join(dlrun("logs", "latest", "--rank", rank).stdout for rank in "01")
    print(text)
    assert not re.search(r"the interpreter ends beside .*gloo", text)
    return text


@pytest.mark.slow
@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
def test_fsdp2_shards_over_the_ranks(dlrun):
    text = ran(dlrun, sys.executable, "fsdp2", "--steps", "20")
    found = re.findall(r"rank (\d) holds (\d+) of (\d+) parameters; loss ([\d.]+) to ([\d.]+)", text)
    assert {rank for rank, *_ in found} == {"0", "1"}
    assert sum(int(own) for _, own, *_ in dict.fromkeys(found)) == int(found[0][2])
    assert len({(first, last) for *_, first, last in found}) == 1
    assert float(found[0][4]) < float(found[0][3])


@pytest.mark.slow
@pytest.mark.skipif(not STACKS, reason="DLRUN_TEST_STACKS names no Python with TRL")
def test_trl_trains_on_all_ranks(dlrun):
    text = ran(dlrun, STACKS, "trl")
    found = re.findall(r"rank (\d) of 2: loss ([\d.]+)", text)
    assert {rank for rank, _ in found} == {"0", "1"}
