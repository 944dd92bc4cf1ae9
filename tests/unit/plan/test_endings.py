"""Early signals, restarts and chains, as the plan decides them."""

from __future__ import annotations

import pytest

from tests.making import decided, plan_of

SITE = """\
name: there
scheduler: {type: slurm}
launcher: {name: srun}
partitions: {long: {max_walltime: 24h, default: true}}
"""


@pytest.mark.parametrize(
    ("walltime", "links", "asked"), [("3d", 3, 86400), ("25h", 2, 86400), ("24h", 1, 86400), ("2h", 1, 7200)]
)
def test_a_chain_has_as_many_runs_as_the_walltime_needs(tmp_path, walltime, links, asked):
    spec = f"chain: true\nresources: {{nodes: 2, walltime: {walltime}}}\non_failure: {{requeue: 2}}\n"
    plan = plan_of(tmp_path, spec, SITE)
    assert plan.request.walltime == asked
    assert plan.requeue == 2 + links - 1
    assert plan.cost.node_hours == 2 * (links + 2) * asked / 3600
    if links > 1:
        assert decided(plan, "chain")[0] == links


def test_a_chain_goes_on_in_time_alone_unless_more_is_asked_for(tmp_path):
    plan = plan_of(tmp_path, "chain: true\nresources: {walltime: 2d}\non_failure: {timed_out: stop}\n", SITE)
    assert plan.requeue_on == ("timed_out",)
    assert plan.request.requeue
    assert any(d.text == "--requeue" for d in plan.directives)


def test_without_requeue_nothing_returns(tmp_path):
    plan = plan_of(tmp_path, "on_failure: {user_error: requeue}\n", SITE)
    assert (plan.requeue_on, plan.request.requeue) == ((), False)


@pytest.mark.parametrize(
    ("command", "signal", "carrier", "ignored"),
    [
        ("[python, x.py]", "USR1", "USR2", ("USR2", "USR1")),
        ("[python, x.py]", "USR2", "USR1", ("USR1", "USR2")),
        ("[python, x.py]", "TERM", "USR1", ("USR1",)),
        ("[/bin/bash, x.sh]", "USR1", "USR2", ("USR2",)),
    ],
)
def test_the_signal_travels_under_another_name(tmp_path, command, signal, carrier, ignored):
    spec = f"name: x\ncommand: {command}\nresources: {{walltime: 1h}}\ncheckpoint: {{signal: {signal}}}\n"
    plan = plan_of(tmp_path, spec, SITE)
    assert (plan.checkpoint.carrier, plan.checkpoint.ignored) == (carrier, ignored)
    assert plan.request.signal == carrier
    assert plan.checkpoint.agents == ()


def test_the_ranks_of_an_agent_are_below_it(tmp_path):
    plan = plan_of(tmp_path, "torch: {agent: true}\ncheckpoint: {}\nresources: {walltime: 1h}\n", SITE)
    assert plan.checkpoint.agents == ("agent",)
