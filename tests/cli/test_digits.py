"""The example, for real: two ranks of torch.distributed train on real data, and agree."""

from __future__ import annotations

import csv
import json
import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).parents[2]
MISSING = [name for name in ("torch", "numpy", "sklearn") if find_spec(name) is None]
pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(
        bool(MISSING), reason=f"{', '.join(MISSING)}: not installed (dependency group `digits`)"
    ),
]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param([], id="env"),
        pytest.param(["--set", "torch.agent=true"], id="torchrun", marks=pytest.mark.slow),
    ],
)
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


@pytest.mark.slow
def test_a_scaling_study(dlrun):
    """1, 2 and 4 ranks: each trains for real, and the table holds what the logs say."""
    dlrun.place = ROOT
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    study = dlrun.jobs.parent / "study"
    words = [
        "--set",
        "placement.threads=1",
        "--set",
        "command+=[--epochs, 3, --expect, 0]",
        "--ranks-per-node",
        "1,2,4",
    ]
    sized = ["examples/digits/spec.yaml", "--site", "workstation", "--repeat", "1", "--out", study, *words]
    driver = dlrun.start("scale", *sized, "--json", env={"PATH": path})
    stdout, stderr = driver.communicate(timeout=280)
    assert driver.returncode == 0, stderr
    data = json.loads(stdout)["scale"]
    assert [(row["nodes"], row["ranks"], row["runs"]) for row in data["rows"]] == [
        (1, 1, 1),
        (1, 2, 1),
        (1, 4, 1),
    ]
    for row, run in zip(data["rows"], data["runs"], strict=True):
        log = (Path(run["directory"]) / "logs" / "rank-0.log").read_text()
        rates = [float(rate) for rate in re.findall(r"(\d+) samples/s", log)]
        assert (run["values"], run["skipped"], run["by"]) == (rates, 1, "a number of samples a second")
        assert row["middle"] == median(rates[1:])
        assert f"with {row['ranks']} ranks, replicas equal" in log
        assert row["speedup"] == pytest.approx(row["middle"] / data["rows"][0]["middle"])
    table = list(csv.DictReader((study / "table.csv").read_text().splitlines()))
    assert [float(row["middle"]) for row in table] == [row["middle"] for row in data["rows"]]
