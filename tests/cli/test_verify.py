"""`dlrun verify` on this machine: ranks report, and what they report is held against the plan."""

from __future__ import annotations

import json

SPEC = """\
command: [python3, no-such-training.py, "{{ lr }}"]
resources: {ranks_per_node: 2, walltime: 1h}
sweep: {lr: [1, 2]}
"""


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
    assert "rank 0 OMP_NUM_THREADS is 7, not 1; likely: the spec" in ran.stdout
    assert "0 of 2 ranks are as planned" in ran.stderr


def test_a_saved_plan_is_refused(dlrun):
    dlrun("plan", dlrun.spec("command: [x]\n"), "-o", "plan.json")
    assert "needs a spec" in dlrun("verify", "plan.json", code=2).stderr
