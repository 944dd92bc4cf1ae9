"""A sweep's table of results, and failed points that run again alone: real jobs on this machine, recorded calls elsewhere."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.cli.test_clients import Clients

SPEC = """\
name: points
command: [bash, -c, 'for i in 1 2 3 4; do echo "it $i acc 0.{{ lr }}$i {{ w }}0$i samples/s"; done; test {{ lr }} != 3 -o -e ok']
resources: {ranks_per_node: 1, walltime: 5m}
sweep:
  zip: {lr: [1, 2, 3], w: [5, 6, 7]}
metrics:
  acc: 'acc ([0-9.]+)'
"""


def results(dlrun, job: Path) -> list[dict]:
    return json.loads(dlrun("results", job, "--json").stdout)["results"]


def test_points_their_numbers_and_failed_ones_once_more(dlrun):
    job = dlrun.submit(SPEC, "--wait", code=1)
    rows = results(dlrun, job)
    assert [row["parameters"] for row in rows] == [
        {"lr": "1", "w": "5"},
        {"lr": "2", "w": "6"},
        {"lr": "3", "w": "7"},
    ]
    assert [row["state"] for row in rows] == ["completed", "completed", "failed"]
    assert [row["metrics"]["acc"]["value"] for row in rows] == [0.14, 0.24, 0.34]
    assert [row["metrics"]["throughput"]["value"] for row in rows] == [503, 603, 703]
    assert rows[0]["metrics"]["throughput"]["skipped"] == 1
    assert all(row["elapsed"] >= 0 for row in rows)

    shown = dlrun("results", job)
    assert "POINT  lr  w  STATE" in shown.stdout
    assert "1 of 3 runs did not end well" in shown.stderr
    table = list(csv.reader(io.StringIO(dlrun("results", job, "--csv", "--sort", "acc").stdout)))
    assert [row[0] for row in table] == ["POINT", "2", "1", "0"]
    assert [row[table[0].index("acc")] for row in table[1:]] == ["0.34", "0.24", "0.14"]

    (dlrun.place / "ok").touch()
    ran = dlrun("resubmit", job, "--failed", "--wait")
    assert "[0/rank 0] it 1 acc 0.31 701 samples/s" in ran.stdout
    assert "acc 0.11" not in ran.stdout
    rows = results(dlrun, job)
    assert [row["state"] for row in rows] == ["completed"] * 3
    assert rows[2]["metrics"]["acc"]["value"] == 0.34
    assert rows[2]["directory"] != str(job / "points" / "2")
    assert "nothing was submitted" in dlrun("resubmit", job, "--failed").stderr

    again = dlrun("resubmit", f"{job}:1,2", "--wait")
    assert [line for line in again.stdout.splitlines() if "it 4" in line] == [
        "[0/rank 0] it 4 acc 0.24 604 samples/s",
        "[1/rank 0] it 4 acc 0.34 704 samples/s",
    ]


def test_a_job_without_a_sweep_has_one_row(dlrun):
    job = dlrun.submit("command: [bash, -c, 'echo hi']\nresources: {ranks_per_node: 1}\n", "--wait")
    (row,) = results(dlrun, job)
    assert (row["point"], row["parameters"], row["state"], row["metrics"]) == (None, {}, "completed", {})
    assert dlrun("results", job).stdout.splitlines()[0].split() == ["STATE", "SECONDS", "NODE-HOURS"]
    assert "no run has `acc`" in dlrun("results", job, "--sort", "acc", code=2).stderr


@pytest.mark.parametrize(
    ("scheduler", "program", "whole", "part"),
    [
        ("slurm", "sbatch", "#SBATCH --array=0-999%50", "#SBATCH --array=0-1%50"),
        ("torque", "qsub", "#PBS -t 0-999%50", "#PBS -t 0-1%50"),
        ("openpbs", "qsub", "#PBS -J 0-999%50", "#PBS -J 0-1%50"),
    ],
)
def test_a_thousand_points_are_one_call_and_some_of_them_another(
    dlrun, tmp_path, scheduler, program, whole, part
):
    clients = Clients(tmp_path / "clients")
    clients.answer(program, "77.server\n" if program == "qsub" else "77\n")
    values = ", ".join(map(str, range(1000)))
    spec = f"command: [./train, '{{{{ x }}}}']\nresources: {{walltime: 1h}}\nsweep: {{x: [{values}], at_once: 50}}\n"
    dlrun("submit", dlrun.spec(f"{spec}site: generic-{scheduler}"), "--job-dir", "job", env=clients.env)
    assert len([call for call in clients.calls() if call["name"] == program]) == 1
    script = (dlrun.place / "job" / "job.sh").read_text().splitlines()
    assert whole in script
    assert (dlrun.place / "job" / "points" / "999" / "logs").is_dir()

    ran = dlrun("resubmit", "job:7,999", env=clients.env)
    new = Path(ran.stdout.split("job directory: ")[1].splitlines()[0])
    assert len([call for call in clients.calls() if call["name"] == program]) == 1
    assert part in (new / "job.sh").read_text().splitlines()
    assert [
        line.split(" ;;")[0].strip() for line in (new / "rank.sh").read_text().splitlines() if "train" in line
    ] == [
        "0) command=(./train 7)",
        "1) command=(./train 999)",
    ]
