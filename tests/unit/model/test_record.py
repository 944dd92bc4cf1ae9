"""Records behave as frozen, slotted dataclasses do."""

import copy
import dataclasses
import inspect
import pickle
import subprocess
from dataclasses import FrozenInstanceError, field

import pytest

from dlrun.model.record import record
from tests import house, programs


@record(frozen=True, slots=True, kw_only=True)
class Record:
    """One of ours."""

    name: str
    count: int = 3
    tags: dict[str, int] = field(default_factory=dict)

    def doubled(self) -> int:
        return 2 * self.count


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """The same, by the standard library."""

    name: str
    count: int = 3
    tags: dict[str, int] = field(default_factory=dict)


@record(frozen=True, slots=True, kw_only=True)
class Three:
    first: int
    second: int
    third: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlainThree:
    first: int
    second: int
    third: int


@record(frozen=True, slots=True)
class Pair:
    begin: int
    end: int = 2


@dataclasses.dataclass(frozen=True, slots=True)
class PlainPair:
    begin: int
    end: int = 2


class Around:
    """A class with a record in it."""

    @record(frozen=True, slots=True, kw_only=True)
    class Inner:
        first: int


def test_it_is_what_the_standard_library_makes():
    ours, theirs = Record(name="a", tags={"x": 1}), Plain(name="a", tags={"x": 1})
    assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    assert repr(ours) == repr(theirs).replace("Plain", "Record")
    assert [(f.name, f.default) for f in dataclasses.fields(ours)] == [
        (f.name, f.default) for f in dataclasses.fields(theirs)
    ]
    assert Record.__slots__ == Plain.__slots__
    assert not hasattr(ours, "__dict__")
    assert Record.__doc__ == "One of ours."
    assert ours.doubled() == 6


def test_equal_values_are_equal_and_hash_alike():
    assert Record(name="a") == Record(name="a", count=3)
    assert Record(name="a") != Record(name="b")
    assert Record(name="a") != Plain(name="a")
    with pytest.raises(TypeError):
        hash(Record(name="a"))  # a dict cannot be hashed
    assert len({Record(name="a", tags=None), Record(name="a", tags=None)}) == 1


def test_every_instance_has_its_own_defaults():
    assert Record(name="a").tags is not Record(name="a").tags


@pytest.mark.parametrize("default", [[], {}, set(), bytearray()], ids=lambda default: type(default).__name__)
@pytest.mark.parametrize("given", [lambda default: default, lambda default: field(default=default)])
def test_a_default_that_instances_would_share_is_refused_in_pythons_own_words(default, given):
    def define(kind):
        body = {"__annotations__": {"first": int, "second": object}, "second": given(default)}
        return kind(frozen=True, slots=True, kw_only=True)(type("Shared", (), body))

    with pytest.raises(ValueError, match="mutable default") as expected:
        define(dataclasses.dataclass)
    with pytest.raises(ValueError, match="mutable default") as error:
        define(record)
    assert str(error.value) == str(expected.value)


def test_it_cannot_be_changed():
    one = Record(name="a")
    with pytest.raises(FrozenInstanceError, match="name"):
        one.name = "b"
    with pytest.raises(FrozenInstanceError, match="count"):
        del one.count
    with pytest.raises(FrozenInstanceError):
        one.other = 1
    assert dataclasses.replace(one, count=4) == Record(name="a", count=4)


def test_it_can_be_copied_and_pickled():
    one = Record(name="a", tags={"x": 1})
    assert copy.copy(one) == copy.deepcopy(one) == pickle.loads(pickle.dumps(one)) == one


def test_one_inside_a_class_has_its_whole_name():
    one = Around.Inner(first=1)
    assert pickle.loads(pickle.dumps(one)) == one
    assert repr(one) == "Around.Inner(first=1)"


def test_copy_replace_of_python_3_13():
    one = Record(name="a", tags={"x": 1})
    assert Record.__replace__(one, count=4) == Record(name="a", count=4, tags={"x": 1})
    with pytest.raises(TypeError, match="'nmae'"):
        Record.__replace__(one, nmae="b")
    code = (
        "import copy; from dlrun.model.record import record\n"
        "@record(frozen=True, slots=True, kw_only=True)\nclass Pair:\n    a: int\n    b: int = 2\n"
        "print(copy.replace(Pair(a=1), b=3))"
    )
    python = [programs.python(13), "-c", code]
    done = subprocess.run(
        python,
        cwd=house.ROOT,
        env={},
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.stdout == "Pair(a=1, b=3)\n"


@pytest.mark.parametrize(
    "arguments", [{}, {"name": "a", "nmae": "b"}, {"nmae": "b"}, {"first": 1}, {"first": 1, "second": 2}]
)
def test_wrong_arguments_are_refused_in_pythons_own_words(arguments):
    for ours, theirs in ((Record, Plain), (Three, PlainThree), (Pair, PlainPair)):
        with pytest.raises(TypeError) as expected:
            theirs(**arguments)
        with pytest.raises(TypeError) as error:
            ours(**arguments)
        assert str(error.value) == str(expected.value).replace("Plain", "Record" if ours is Record else "")


def test_there_are_no_positional_arguments_if_it_is_keyword_only():
    with pytest.raises(TypeError, match="positional"):
        Record("a")


def test_positional_arguments_are_those_of_the_standard_library():
    assert Pair(1) == Pair(begin=1, end=2)
    assert Pair(1, 3) == Pair(1, end=3) == dataclasses.replace(Pair(1), end=3)
    assert Pair.__match_args__ == PlainPair.__match_args__
    assert dataclasses.fields(Pair)[0].kw_only is dataclasses.fields(PlainPair)[0].kw_only
    for given, named in (
        ((1, 2, 3), {}),
        ((1,), {"first": 2}),
        ((1, 2, 3), {"first": 1}),
        ((1,), {"third": 3}),
    ):
        for kind in (PlainPair, Pair):
            with pytest.raises(TypeError, match="argument"):
                kind(*given, **named)


def test_its_signature_can_be_asked_for():
    assert str(inspect.signature(Record)) == "(*, name, count=3, tags={})"
    assert str(inspect.signature(Pair)) == "(begin, end=2)"


def test_there_is_no_other_kind():
    with pytest.raises(TypeError, match="frozen"):
        record(frozen=False, slots=True, kw_only=True)
