"""What `dlrun tune` tries."""

from __future__ import annotations

import pytest

from dlrun.errors import Invalid
from dlrun.fabrics.table import rules_for
from dlrun.trials.tune import candidates
from dlrun.trials.tune.candidates import Try, as_planned, from_options, parameters_of, parse_try, together


def test_every_variable_is_tunable_in_the_tables_of_settings():
    for name in candidates.VALUES:
        assert any(rule.cls == "tunable" and rule.source for rule in rules_for(name)), name
    assert set(candidates.VALUES) >= candidates.SEVERAL_NODES


def test_a_parameter_of_the_command_has_its_first_value_as_planned():
    tries = [Try("workers", ("2", "4")), Try("placement.smt", ("all",))]
    parameters = parameters_of(tries, frozenset({"placement"}))
    found = from_options(tries, parameters)
    assert parameters == {"workers": "2"}
    assert [(one.name, dict(one.sets), dict(one.parameters)) for one in found] == [
        ("workers=4", {}, {"workers": "4"}),
        ("placement.smt=all", {"placement.smt": "all"}, {"workers": "2"}),
    ]
    both = together(found, as_planned(parameters).parameters)
    assert (both.name, both.sets, both.parameters) == (
        "workers=4 + placement.smt=all", {"placement.smt": "all"}, {"workers": "4"},
    )  # fmt: skip


def test_try_takes_a_name_and_values():
    assert parse_try("a.b=1, 2,1") == Try("a.b", ("1", "2"))
    for text in ("a", "=1", "a=", "a=1,,2", "1a=2"):
        with pytest.raises(Invalid, match="is not `NAME=VALUE,VALUE`"):
            parse_try(text)
