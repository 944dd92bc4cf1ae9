"""Keys set in a YAML file's text."""

from __future__ import annotations

import pytest
import yaml

from dlrun.render.patch import patched

SPEC = """\
# mine
name: x
command: [python, t.py]  # c
resources:
  nodes: 2   # two
  # about time
  walltime: 1h

placement: {smt: one}
environment:
metrics:
  throughput: {pattern: "x"}
"""


def test_every_shape_of_mapping_is_edited_and_comments_stay():
    sets = {
        "resources.nodes": "4",
        "resources.ranks_per_node": "8",
        "placement.threads": "2",
        "placement.smt": "all",
        "environment.variables.A_B": '"1"',
        "results.to": "/x",
    }
    assert (
        patched(SPEC, sets, "measured")
        == """\
# mine
name: x
command: [python, t.py]  # c
resources:
  # measured
  nodes: 4   # two
  # about time
  walltime: 1h
  # measured
  ranks_per_node: 8

# measured
placement: {smt: all, threads: 2}
environment:
  # measured
  variables:
    A_B: "1"
metrics:
  throughput: {pattern: "x"}
# measured
results:
  to: /x
"""
    )


@pytest.mark.parametrize(
    "text",
    [
        "name: x",
        "name: x\n",
        "name: x\n\n# end",
        "a:\n  b:\n    c: 1\n",
        "name: |\n  two\n  lines\n",
        "a: {}\n",
        "x: [1,\n 2]\n",
    ],
)
@pytest.mark.parametrize("key", ["placement.smt", "a.b.d", "environment.variables.X", "top"])
def test_the_result_has_the_value_and_all_else(text, key):
    before = yaml.safe_load(text)  # noqa: TID251 - other code than that which wrote it
    after = yaml.safe_load(patched(text, {key: "7"}, "why"))  # noqa: TID251
    inner, names = after, key.split(".")
    for name in names[:-1]:
        inner = inner[name]
    assert inner.pop(names[-1]) == 7
    for name in names[:-1]:
        if after.get(name) == {} and name not in before:
            after.pop(name)
    flat = {name: value for name, value in after.items() if name not in names}
    assert flat == {name: value for name, value in before.items() if name not in names}


def test_what_cannot_be_changed_is_refused():
    for text, fault in (
        ("- a\n", "not a mapping"),
        ("placement: 3\n", "`placement` is not a mapping"),
        ("a: [", "not YAML"),
    ):
        with pytest.raises(ValueError, match=fault):
            patched(text, {"placement.smt": "all"})
