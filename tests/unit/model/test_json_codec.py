"""Plans to JSON and back: nothing is lost, and what is no plan is refused by key."""

from __future__ import annotations

import json
import typing
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass

import pytest
from hypothesis import given, settings, strategies as st

from dlrun.model import plan as plan_module
from dlrun.model.json_codec import from_plain, to_plain
from dlrun.model.origin import Decision, Layer, Origin
from dlrun.model.plan import Plan, RolePlan, Variable
from dlrun.model.text import Shell, Text
from dlrun.model.units import Bytes, Duration
from tests.examples import examples

CHARACTERS = st.characters(codec="utf-8", exclude_characters="\0")
TEXT = st.text(CHARACTERS, max_size=12)
PIECE = TEXT | st.builds(Shell, TEXT)
st.register_type_strategy(Text, st.lists(PIECE, max_size=4).map(lambda pieces: Text.of(*pieces)))
st.register_type_strategy(Shell, st.builds(Shell, TEXT))
st.register_type_strategy(Bytes, st.integers(0, 2**60).map(Bytes))
st.register_type_strategy(Duration, st.integers(0, 10**9).map(Duration))
st.register_type_strategy(str, TEXT)
st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))
st.register_type_strategy(
    Decision,
    st.builds(
        Decision,
        key=TEXT,
        value=st.none() | st.integers() | TEXT | st.booleans(),
        rule=TEXT,
        because=TEXT,
        origin=st.none() | st.from_type(Origin),
    ),
)


def fitting(kind):
    """Records whose fields are within the bounds and patterns that they are declared with."""
    hints, own = typing.get_type_hints(kind), {}
    for one in fields(kind):
        choices = typing.get_args(hints[one.name]) or (hints[one.name],)
        pattern, least, most = (one.metadata.get(name) for name in ("pattern", "minimum", "maximum"))
        if pattern:
            words = st.from_regex(pattern, fullmatch=True, alphabet=CHARACTERS)
            found = st.lists(words, max_size=3).map(tuple) if Ellipsis in choices else words
            own[one.name] = st.none() | found if type(None) in choices else found
        elif hints[one.name] is int and (least, most) != (None, None):
            own[one.name] = st.integers(least, most)
    return st.builds(kind, **own) if own else None


for record in vars(plan_module).values():
    if is_dataclass(record) and (strategy := fitting(record)) is not None:
        st.register_type_strategy(record, strategy)


def there_and_back(kind, value):
    return from_plain(kind, json.loads(json.dumps(to_plain(value), ensure_ascii=False)))


@settings(max_examples=examples(20))
@given(st.from_type(Plan))
def test_any_plan_survives_json(plan):
    again = there_and_back(Plan, plan)
    assert again == plan
    assert [type(d.value) for d in again.decisions] == [type(d.value) for d in plan.decisions]
    if plan.request.walltime is not None:
        assert isinstance(again.request.walltime, Duration)


@settings(max_examples=examples(50))
@given(st.from_type(RolePlan))
def test_shell_expansions_never_turn_into_text_or_the_reverse(role):
    again = there_and_back(RolePlan, role)
    assert [w.parts for w in (*again.argv, *again.launch)] == [w.parts for w in (*role.argv, *role.launch)]


def test_text_that_looks_like_an_expansion_stays_text():
    plain = to_plain(Text.of('{"shell": "$(id)"}', Shell("$X"), "$(id)"))
    assert plain == ['{"shell": "$(id)"}', {"shell": "$X"}, "$(id)"]
    assert from_plain(Text, plain).parts == ('{"shell": "$(id)"}', Shell("$X"), "$(id)")


def test_the_form_on_disk():
    variable = Variable(
        name="A",
        value=Text.of("a"),
        rule="r",
        because="b",
        origin=Origin(layer=Layer.SPEC, name="spec.yaml", line=1, column=2),
    )
    assert to_plain(variable) == {
        "name": "A",
        "value": "a",
        "rule": "r",
        "because": "b",
        "origin": {"layer": "spec", "name": "spec.yaml", "line": 1, "column": 2},
        "source": None,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One field of each kind that a plan uses."""

    count: int = 0
    share: float = 0.0
    on: bool = False
    size: Bytes | typing.Literal["all"] | None = None
    pair: tuple[int, int] = (0, 0)
    names: tuple[str, ...] = ()
    table: Mapping[str, int] | None = None
    code: Shell | None = None
    inner: Sample | None = None


def test_kinds_come_back_as_they_were():
    sample = Sample(count=1, share=2.0, on=True, size=Bytes(5), pair=(1, 2), names=("a",), table={"b": 3},
                    code=Shell("$X"), inner=Sample(size="all"))  # fmt: skip
    again = there_and_back(Sample, sample)
    assert again == sample
    assert {f.name: type(getattr(again, f.name)) for f in fields(Sample)} == {
        f.name: type(getattr(sample, f.name)) for f in fields(Sample)
    }
    assert isinstance(from_plain(Sample, {"share": 2}).share, float)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "dict expected"),
        ({"cuont": 1}, "unknown key `cuont`"),
        ({"count": "1"}, r"\.count: int expected, str found"),
        ({"count": True}, r"\.count: int expected, bool found"),
        ({"count": 1.5}, r"\.count: int expected, float found"),
        ({"on": 1}, r"\.on: bool expected"),
        ({"size": "most"}, r"\.size: "),
        ({"pair": [1]}, r"\.pair: 2 items expected, 1 found"),
        ({"pair": [1, "2"]}, r"\.pair\[1\]: int expected"),
        ({"names": "a"}, r"\.names: list expected"),
        ({"names": ["a", 1]}, r"\.names\[1\]: str expected"),
        ({"table": {"b": "c"}}, r"\.table\.b: int expected"),
        ({"code": "$X"}, r"\.code: a shell expansion expected"),
        ({"inner": {"count": None}}, r"\.inner\.count: int expected"),
    ],
)
def test_other_shapes_are_refused_by_key(data, message):
    with pytest.raises(ValueError, match=message):
        from_plain(Sample, data)


def test_a_key_without_a_value_may_be_one_that_an_earlier_version_had():
    assert from_plain(Sample, {"count": 1, "former": None}) == Sample(count=1)


def test_a_missing_key_is_named():
    with pytest.raises(ValueError, match=r"without `name`, `rule`, `because`$"):
        from_plain(Variable, {"value": "a"})
