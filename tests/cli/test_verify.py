"""`dlrun verify` on this machine: ranks report, and what they report is held against the plan."""

from __future__ import annotations

import json
import os
import re
import sys

import pytest

SPEC = """\
command: [python3, no-such-training.py, "{{ lr }}"]
resources: {ranks_per_node: 2, walltime: 1h}
sweep: {lr: [1, 2]}
"""


@pytest.mark.slow
def test_ranks_report_in_place_of_the_training(dlrun):
    ran = dlrun("verify", dlrun.spec(SPEC), "--json")
    ranks = json.loads(ran.stdout)["verify"]["ranks"]
    assert [(one["report"]["rank"], one["report"]["sum"], one["differences"]) for one in ranks] == [
        (0, 3, []),
        (1, 3, []),
    ]
    assert ranks[1]["report"]["round_trip"] > 0
    assert "2 of 2 ranks are as planned" not in ran.stdout
    assert not dlrun.alive()


def test_a_difference_is_said_and_is_the_exit_code(dlrun):
    more = "environment: {variables: {OMP_NUM_THREADS: '7'}}\nplacement: {threads: 1}\n"
    ran = dlrun("verify", dlrun.spec(SPEC + more), code=1)
    assert "ranks 0-1: OMP_NUM_THREADS is 7, not 1; likely: the spec" in ran.stdout
    assert "0 of 2 ranks are as planned" in ran.stderr


def test_a_saved_plan_is_refused(dlrun):
    dlrun("plan", dlrun.spec("command: [x]\n"), "-o", "plan.json")
    assert "is a saved plan" in dlrun("verify", "plan.json", code=2).stderr


def site(dlrun, cores: int, more: str = "") -> None:
    """A profile of this machine that says how many cores it has."""
    (dlrun.place / "site.yaml").write_text(
        "name: here\nscheduler: {type: local}\nlauncher: {name: local}\nrendezvous: {address: loopback}\n"
        "partitions: {all: {default: true, node_type: n}}\n"
        f"node_types: {{n: {{topology: {{packages: 1, cores: {cores}}}}}}}\n{more}"
    )


TRAINING = "command: [bash, -c, 'echo trained']\nresources: {ranks_per_node: 2}\nsite: ./site.yaml\n"


@pytest.mark.skipif(os.cpu_count() < 2, reason="needs two cores to place two ranks on")
def test_every_job_can_look_at_its_placement_first(dlrun):
    site(dlrun, 2, "defaults: {verify: fail}\n")
    job = dlrun.submit(TRAINING, "--wait")
    log = (job / "logs" / "job.log").read_text()
    assert log.count("2 of 2 as planned") == 1, log
    assert "trained" in (job / "logs" / "rank-0.log").read_text()
    assert "verify" in dlrun("explain", "verify", job).stdout


def unbound(dlrun) -> str:
    """A line that hides the program which binds, so that ranks stay where they were started."""
    (dlrun.place / "bin").mkdir()
    (dlrun.place / "bin" / "taskset").write_text("#!/bin/sh\n")
    (dlrun.place / "bin" / "taskset").chmod(0o755)
    return f"environment: {{setup: ['PATH={dlrun.place}/bin:$PATH']}}\n"


@pytest.mark.skipif(os.cpu_count() < 2, reason="needs two cores to place two ranks on")
def test_ranks_elsewhere_than_planned_end_the_job(dlrun):
    site(dlrun, 2)
    job = dlrun.submit(f"{TRAINING}verify: fail\n{unbound(dlrun)}", "--wait", code=1)
    log = (job / "logs" / "job.log").read_text()
    assert re.search(r"0 of 2 as planned; rank . may use CPUs [\d,-]+, not [\d-]+; rank", log), log
    assert not any("trained" in path.read_text() for path in (job / "logs").glob("rank-*.log"))
    (answer,) = json.loads(dlrun("why", job, "--json").stdout)["why"]
    assert answer["cause"] == "placement"
    assert "may use CPUs" in answer["means"]
    assert not dlrun.alive()


@pytest.mark.slow
@pytest.mark.skipif(os.cpu_count() < 2, reason="needs two cores to place two ranks on")
def test_cores_that_were_not_granted_are_named_and_the_granted_ones_divided(dlrun):
    site(dlrun, 4096)
    job = dlrun.submit(f"{TRAINING}verify: fail\n", "--wait")
    log = (job / "logs" / "job.log").read_text()
    assert re.search(r"2 of 2 as divided among them, because core \d+ of the plan was not granted", log), log


@pytest.mark.slow
@pytest.mark.skipif(os.cpu_count() < 2, reason="needs two cores to place two ranks on")
def test_a_warning_ends_nothing(dlrun):
    site(dlrun, 2)
    job = dlrun.submit(f"{TRAINING}verify: warn\n{unbound(dlrun)}", "--wait")
    assert "0 of 2 as planned; rank" in (job / "logs" / "job.log").read_text()
    assert "trained" in (job / "logs" / "rank-1.log").read_text()


@pytest.mark.slow
def test_without_the_key_scripts_hold_nothing_of_it(dlrun):
    site(dlrun, 2)
    job = dlrun.submit(TRAINING, "--wait")
    assert "tell_placement" not in (job / "rank.sh").read_text()
    assert "as planned" not in (job / "logs" / "job.log").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["PYTHONHOME of elsewhere", "a Python that needs PYTHONHOME"])
def test_ranks_report_whatever_python_their_environment_has(dlrun, kind):
    """A module may set PYTHONHOME for its own Python, which does not run isolated: another one reports then."""
    more, asked = "environment: {variables: {PYTHONHOME: /none}}\n", dlrun.place / "asked"
    if kind.startswith("a Python"):
        (dlrun.place / "bin").mkdir()
        python = dlrun.place / "bin" / "python3"
        python.write_text(
            f'#!/bin/sh\ncase $1 in -I*) echo "No module named encodings" >&2; : >"{asked}"; exit 1 ;; esac\n'
            f'exec {sys.executable} "$@"\n'
        )
        python.chmod(0o755)
        more = f"environment: {{setup: ['export PYTHONHOME=/none PATH={dlrun.place}/bin:$PATH']}}\n"
    ran = dlrun("verify", dlrun.spec(SPEC + more), "--json")
    ranks = json.loads(ran.stdout)["verify"]["ranks"]
    assert [(one["report"]["rank"], one["differences"]) for one in ranks] == [(0, []), (1, [])]
    assert asked.exists() == kind.startswith("a Python")
