"""The metrics of a spec: what is wrong with one is said before anything is submitted."""

from __future__ import annotations

import pytest

from dlrun.model.problem import InvalidFile
from tests.making import LOCAL, plan_of


@pytest.mark.parametrize(
    ("metrics", "code", "words"),
    [
        ("{a: 'a ['}", "DLR085", "is not a regular expression"),
        ("{a: 'a=1'}", "DLR085", "has no group"),
        ("{a: '(a)(b)'}", "DLR085", "has 2 groups"),
        ("{a: {}}", "DLR085", "its format in the log is not set"),
        ("{a: {pattern: '(a)', json: a}}", "DLR085", "are given"),
        ("{throughput: {of: steps}}", "DLR086", "counts steps"),
        ("{throughput: {of: step_time}}", "DLR086", "seconds per step"),
        ("{throughput: {take: best}}", "", "takes `auto`, `last`"),
        ("{'a b': x}", "", "cannot be a name"),
    ],
)
def test_faults(tmp_path, metrics, code, words):
    with pytest.raises(InvalidFile) as raised:
        plan_of(tmp_path, f"metrics: {metrics}", LOCAL)
    (problem,) = raised.value.problems
    assert (problem.code or "", words in problem.message) == (code, True), problem
    assert problem.origin.line == 2


def test_metrics_go_into_the_plan(tmp_path):
    spec = "metrics: {throughput: , loss: 'loss (.*)', x: {pattern: '(?P<value>a)(b)', take: max, skip: 2}}"
    plan = plan_of(tmp_path, spec, LOCAL)
    assert plan.metrics["loss"].pattern == "loss (.*)"
    assert (plan.metrics["x"].take, plan.metrics["x"].skip) == ("max", 2)
    assert plan.metrics["throughput"].pattern is None
