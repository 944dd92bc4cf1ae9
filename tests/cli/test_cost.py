"""What a job can cost, and what it has used: said before, and at its end."""

from __future__ import annotations

import json

import pytest

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


def test_without_a_walltime_there_is_no_most(dlrun):
    spec = dlrun.spec("command: ['true']\nresources: {ranks_per_node: 1}\n")
    assert "the cost is unknown without a walltime" in dlrun("plan", spec, "--cost", code=2).stderr
    ran = dlrun("submit", spec, "--wait")
    assert " used " in ran.stderr
    assert " of at most " not in ran.stderr


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
