"""The example, for real: two ranks of torch.distributed train on real data, and agree."""

from __future__ import annotations

import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MISSING = [name for name in ("torch", "numpy", "sklearn") if find_spec(name) is None]
pytestmark = [
    pytest.mark.torch,
    pytest.mark.slow,
    pytest.mark.skipif(
        bool(MISSING), reason=f"{', '.join(MISSING)}: not installed (dependency group `digits`)"
    ),
]


@pytest.mark.parametrize("options", [[], ["--set", "torch.torchrun=true"]], ids=["env", "torchrun"])
def test_digits(dlrun, options):
    dlrun.place = ROOT
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ran = dlrun(
        "submit", "examples/digits/spec.yaml", "--site", "workstation", "--wait", *options, env={"PATH": path}
    )
    job = Path(ran.stdout.split("job directory: ")[1].splitlines()[0])
    accuracy = re.search(r"^test accuracy ([\d.]+) with 2 ranks, replicas equal$", ran.stdout, re.MULTILINE)
    assert accuracy, ran.stdout
    assert float(accuracy[1]) >= 0.95
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", ran.stdout)]
    assert losses[-1] < losses[0]
    logs = "".join(path.read_text() for path in (job / "logs").glob("*.log"))
    cores = dict(re.findall(r"rank (\d) of 2 on \S+, cores \[([\d, ]+)\]", logs))
    assert set(cores) == {"0", "1"}
    if not options and cores["0"] != cores["1"]:
        assert not set(cores["0"].split(", ")) & set(cores["1"].split(", "))
    assert not dlrun.alive()
