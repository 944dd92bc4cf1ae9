"""Small parts of the model: states, origins, problems, keys of a dataclass."""

from dlrun.errors import Invalid
from dlrun.model.job import State
from dlrun.model.keys import names
from dlrun.model.origin import Layer, Origin
from dlrun.model.problem import InvalidFile, Problem
from dlrun.model.spec import OnFailure


def test_ten_states_are_final():
    assert [s.value for s in State if not s.final] == ["pending", "held", "running", "ending", "unknown"]
    assert sum(s.final for s in State) == 10


def test_an_origin_is_a_place_or_a_name():
    assert str(Origin(layer=Layer.SPEC, name="spec.yaml", line=5, column=3)) == "spec.yaml:5:3"
    assert str(Origin(layer=Layer.FLAG, name="--set a=b")) == "--set a=b"


def at(line, column, name="spec.yaml"):
    return Origin(layer=Layer.SPEC, name=name, line=line, column=column)


def test_problems_come_sorted_by_place_and_those_without_one_last():
    problems = [
        Problem(message="e"),
        Problem(message="d", origin=at(10, 1)),
        Problem(message="b", origin=at(2, 3), help="mend b"),
        Problem(message="a", origin=at(9, 9, "a.yaml")),
        Problem(message="c", origin=at(2, 12)),
    ]
    error = InvalidFile(problems)
    assert [p.message for p in error.problems] == ["a", "b", "c", "d", "e"]
    assert isinstance(error, Invalid)
    assert error.exit_code == 2
    assert (str(error), error.help) == ("a", None)


def test_keys_in_the_order_declared():
    assert names(OnFailure)[:2] == ("requeue", "timed_out")
