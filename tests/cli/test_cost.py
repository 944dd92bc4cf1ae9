"""What a job can cost, and what it has used: said before, and at its end."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import wait_for

ENDINGS = Path(__file__).parents[2] / "templates" / "lib" / "endings.sh"
SITE = """\
name: billed
scheduler: {{type: local}}
launcher: {{name: local}}
rendezvous: {{address: loopback}}
billing: {{unit: {unit}, per: {per}, factor: {factor}}}
"""


def test_said_before_and_at_the_end(dlrun):
    (dlrun.place / "billed.yaml").write_text(SITE.format(unit="credits", per="node", factor=7200))
    spec = dlrun.spec(
        "command: [sleep, '1.2']\nresources: {ranks_per_node: 1, walltime: 30m}\nsite: ./billed.yaml\n"
    )
    assert dlrun("plan", spec, "--cost").stdout == "0.5 node-hours = 3600 credits\n"
    cost = json.loads(dlrun("plan", spec, "--cost", "--json").stdout)["cost"]
    assert cost == {"node_hours": 0.5, "units": 3600.0, "unit": "credits", "an_hour": 7200.0}
    ran = dlrun("submit", spec, "--wait")
    (line,) = [line for line in ran.stderr.splitlines() if " used " in line]
    assert line.endswith(" credits, of at most 0.5 node-hours = 3600 credits")
    assert dlrun("status", "latest").stderr.partition(" used ")[2] == line.partition(" used ")[2] + "\n"
    (job,) = json.loads(dlrun("status", "latest", "--json").stdout)["jobs"]
    assert job["asked"] == cost
    assert 1 / 3600 <= job["used"]["node_hours"] < 0.1
    assert job["used"]["units"] == pytest.approx(7200 * job["used"]["node_hours"])


@pytest.mark.slow
def test_without_a_walltime_there_is_no_most(dlrun):
    spec = dlrun.spec("command: ['true']\nresources: {ranks_per_node: 1}\n")
    assert "the cost is unknown without a walltime" in dlrun("plan", spec, "--cost", code=2).stderr
    ran = dlrun("submit", spec, "--wait")
    assert " used " in ran.stderr
    assert " of at most " not in ran.stderr


@pytest.mark.slow
def test_what_a_failed_run_used_is_counted_when_it_ran_again(dlrun):
    script = "sleep 2; [[ {{ n }} == 1 || -e go ]]"
    job = dlrun.submit(
        f"sweep: {{n: [1, 2]}}\nresources: {{ranks_per_node: 1, walltime: 1h}}\ncommand: [bash, -c, '{script}']\n",
        "--wait",
        code=None,
    )
    assert "ran again" not in dlrun("results", job.name).stderr
    (dlrun.place / "go").touch()
    dlrun("resubmit", job.name, "--failed", "--wait")
    ran = dlrun("results", job.name)
    assert ran.stdout.count("completed") == 2
    (line,) = [line for line in ran.stderr.splitlines() if line.startswith("used ")]
    hours = float(line.partition("and ")[2].split()[0])
    assert 1 / 3600 <= hours < 0.1
    assert line.endswith("node-hours in runs that ran again")


@pytest.mark.slow
def test_results_show_three_digits_of_what_was_spent(dlrun):
    (dlrun.place / "billed.yaml").write_text(SITE.format(unit="credits", per="node", factor=7200))
    job = dlrun.submit(
        "site: ./billed.yaml\nsweep: {n: [1, 2]}\nresources: {ranks_per_node: 1, walltime: 1h}\n"
        "command: [bash, -c, 'sleep 1.3']\n",
        "--wait",
    )
    header, *rows = dlrun("results", job.name).stdout.splitlines()
    assert len(rows) == 2
    for row in rows:
        cells = dict(zip(header.split(), row.split(), strict=True))
        for spent in (cells["NODE-HOURS"], cells["CREDITS"]):
            assert 1 <= len(spent.partition("e")[0].replace(".", "").lstrip("0")) <= 3, spent
    exact = json.loads(dlrun("results", job.name, "--json").stdout)["results"]
    lines = dlrun("results", job.name, "--csv").stdout.splitlines()
    for line, one in zip(lines[1:], exact, strict=True):
        assert f"{one['node_hours']:.6g}" in line.split(","), "all digits where a program reads them"


@pytest.mark.slow
def test_use_and_its_bound_count_every_run(dlrun):
    spec = dlrun.spec(
        "run: 'sleep 2; exit 3'\nresources: {ranks_per_node: 1, walltime: 10m}\n"
        "on_failure: {requeue: 2, user_error: requeue}\ncheckpoint: {signal: USR1, before_end: 1m}\n"
    )
    shown = dlrun("plan", spec).stdout
    assert "cost at most 0.5 node-hours" in shown
    assert (
        "runs        up to 3: again after timed out, preempted, node failed, hang, user error"
        in shown.replace("node failed, user", "node failed, hang, user")
    )
    assert "signal      SIGUSR1 to every rank, 1m before the end" in shown
    done = dlrun("submit", spec, "--wait", code=3)
    assert "of at most 0.5 node-hours" in done.stderr
    job = dlrun("status", "latest", "--json").stdout
    used = json.loads(job)["jobs"][0]["used"]["node_hours"] * 3600
    assert used >= 6, "three runs of two seconds each"


@pytest.mark.slow
def test_a_run_that_was_killed_counts_until_its_last_sign_of_life(dlrun):
    job = dlrun.submit("run: 'echo here; sleep 600'\nresources: {ranks_per_node: 1}\n")
    wait_for(
        lambda: (job / "logs" / "rank-0.log").exists() and "here" in (job / "logs" / "rank-0.log").read_text()
    )
    began = json.loads((job / "state.json").read_text())["started"]
    dlrun("cancel", job)
    record = json.loads((job / "state.json").read_text()) | {
        "ended": None,
        "earlier": 40,
        "started": began - 100,
    }
    (job / "state.json").write_text(json.dumps(record) + "\n")
    os.utime(job / "logs" / "job.log", (began - 50, began - 50))
    os.utime(job / "logs" / "rank-0.log", (began - 60, began - 60))
    parts = f"source lib/job.sh; source {ENDINGS}"
    lines = f'DLRUN_JOB_DIR={job}; {parts}; DLRUN_RUN_DIR={job}; _dlrun_count_earlier; echo "$_dlrun_earlier"'
    text = subprocess.run(["bash", "-euc", lines], capture_output=True, text=True, check=True, cwd=job).stdout
    assert text == "90\n"
