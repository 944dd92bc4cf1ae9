"""`dlrun resubmit`: the plan of a job again, or its spec with settings changed."""

from __future__ import annotations

import json

import pytest

SWEEP = """\
run: |
  echo {{ lr }} $DLRUN_RANK
  [ {{ lr }} != 2 ] || [ -n "${ENOUGH-}" ]
sweep: {lr: [1, 2]}
resources: {ranks_per_node: 1}
"""


def told(done) -> str:
    return done.stdout + done.stderr


def test_a_changed_setting_joins_those_of_the_first_submission(dlrun):
    first = dlrun.submit("run: 'pwd; echo $A ${B-}'\nresources: {ranks_per_node: 1}\n", "--set",
                         "environment.variables.A=a1", "--wait")  # fmt: skip
    elsewhere = dlrun.place / "elsewhere"
    elsewhere.mkdir()
    (dlrun.place / "spec.yaml").unlink()
    done = dlrun("resubmit", first, "--set", "environment.variables.B=b1", "--wait")
    assert f"{dlrun.place}\n" in done.stdout, "relative paths begin where the job was submitted first"
    assert "a1 b1" in done.stdout
    again = dlrun("resubmit", "latest", "--set", "environment.variables.A=a2", "--wait")
    assert "a2 b1" in again.stdout


@pytest.mark.slow
def test_failed_points_run_again_with_more(dlrun):
    first = dlrun.submit(SWEEP)
    dlrun("logs", "-f", first, code=None)
    done = dlrun("resubmit", first, "--failed", "--set", "environment.variables.ENOUGH=yes", "--wait")
    assert "[0/rank 0] 2 0" in done.stdout
    runs = json.loads(dlrun("results", first, "--json").stdout)["results"]
    assert {one["parameters"]["lr"]: one["state"] for one in runs} == {"1": "completed", "2": "completed"}


@pytest.mark.slow
def test_what_cannot_be_changed_is_named(dlrun):
    first = dlrun.submit(SWEEP)
    dlrun("logs", "-f", first, code=None)
    assert (
        "the nearest key is `nodes`" in dlrun("resubmit", first, "--set", "resources.nodez=2", code=2).stderr
    )
    assert "changes the points" in dlrun("resubmit", first, "--set", "sweep.lr=[1, 3]", code=2).stderr
    (first / "settings.json").unlink()
    assert "is not recorded" in dlrun("resubmit", first, "--set", "resources.nodes=1", code=2).stderr
    assert told(dlrun("resubmit", first, "--failed"))
