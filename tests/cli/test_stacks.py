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


def ran(dlrun, python: str, name: str, *arguments: str) -> str:
    words = ", ".join([python, str(EXAMPLES / name / "train.py"), *arguments])
    spec = dlrun.spec(
        f"name: {name}\nframework: torch\ncommand: [{words}]\nresources: {{ranks_per_node: 2, walltime: 10m}}\n"
    )
    print(dlrun("submit", spec, "--wait").stdout)
    text = "".join(dlrun("logs", "latest", "--rank", rank).stdout for rank in "01")
    print(text)
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
