"""Nodes to dataclasses: what is accepted, how it arrives, and where it came from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from dlrun.config.decode import decode
from dlrun.config.document import parse
from dlrun.config.hints import keys
from dlrun.config.wording import pattern_fault
from dlrun.model.data import DataSet
from dlrun.model.keys import AMOUNT, key
from dlrun.model.origin import Layer, Origin
from dlrun.model.spec import After, Spec
from dlrun.model.units import Bytes, Duration

FILE = Origin(layer=Layer.SPEC, name="spec.yaml")
BASE = "name: x\ncommand: [python, train.py]\n"


def spec(text, **options):
    root = parse(BASE + text, FILE).root
    decoded = decode(root, Spec, **options)
    assert decoded.problems == ()
    return decoded.value


def problems(text, schema=Spec, **options):
    decoded = decode(parse(text, FILE).root, schema, **options)
    assert decoded.value is None
    return [p.message for p in decoded.problems]


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("10:00:00", 10),
        ("01:00:00", 1),
        ("4h", 4),
        ("90m", 1.5),
        ("1-12:00:00", 36),
        ("1d12h", 36),
        ("'2h'", 2),
    ],
)
def test_times(text, hours):
    assert spec(f"resources: {{walltime: {text}}}").resources.walltime == Duration(hours * 3600)


@pytest.mark.parametrize(
    ("text", "size"), [("512MiB", 512 * 2**20), ("1.5TB", 15 * 10**11), ("64G", 64 * 10**9)]
)
def test_sizes(text, size):
    assert spec(f"resources: {{memory_per_node: {text}}}").resources.memory_per_node == Bytes(size)


@pytest.mark.parametrize(
    "text",
    ["no", "yes", "on", "0123", "3.10", "1e-4", "0x1f", "1_000", "12:30:45", "2024-01-01", "null", "~"],
)
def test_texts_arrive_as_typed(text):
    found = spec(f"environment: {{variables: {{A: {text}}}}}\nsweep: {{lr: [{text}]}}")
    assert found.environment.variables == {"A": text}
    assert found.sweep.grid == {"lr": (text,)}


def test_texts_of_named_things_arrive_as_typed():
    found = spec("resources: {partition: no, account: 0123, options: {filesystems: yes}}")
    assert (found.resources.partition, found.resources.account) == ("no", "0123")
    assert found.resources.options == {"filesystems": "yes"}


def test_hostile_arguments_arrive_unchanged():
    text = "name: x\ncommand: [python, \"'; touch /tmp/x; '\", $(id), '`id`', \"a\\nb\", '']\n"
    decoded = decode(parse(text, FILE).root, Spec)
    assert decoded.value.command == ("python", "'; touch /tmp/x; '", "$(id)", "`id`", "a\nb", "")


def test_auto_and_numbers():
    resources = spec(
        "resources: {nodes: 16, ranks_per_node: auto, gpus_per_node: 0, exclusive: true}"
    ).resources
    assert (resources.nodes, resources.ranks_per_node) == (16, "auto")
    assert (resources.gpus_per_node, resources.exclusive) == (0, True)


@pytest.mark.parametrize("nothing", ["", "~", "null"])
def test_nothing_given_is_the_default(nothing):
    found = spec(
        f"resources: {{partition: {nothing}, hosts: {nothing}}}\nenvironment: {nothing}\ndata: {nothing}\n"
    )
    assert found == spec("")


def test_quoted_null_is_a_text():
    assert spec("resources: {partition: 'null'}").resources.partition == "null"


def test_short_forms():
    found = spec("data: {a: /x, b: {source: /y, strategy: copy}}\nafter: [12, {job: y, when: any}]\n")
    assert found.data == {"a": DataSet(source="/x"), "b": DataSet(source="/y", strategy="copy")}
    assert found.after == (After(job="12"), After(job="y", when="any"))


def test_one_text_for_a_list_where_it_can_mean_only_one():
    found = spec(
        "resources: {hosts: 'n[01-04]'}\nenvironment: {modules: gcc/13, setup: source /x y}\nafter: 12\nsweep: {a: b}\n"
    )
    assert found.resources.hosts == ("n[01-04]",)
    assert found.environment.modules == ("gcc/13",)
    assert found.environment.setup == ("source /x y",)
    assert found.after == (After(job="12"),)
    assert found.sweep.grid == {"a": ("b",)}


@pytest.mark.parametrize(
    "text",
    [
        "command: train",
        "environment: {modules: gcc cuda}",
        "environment: {modules: 'gcc,cuda'}",
        "sweep: {lr: 0.1 0.2}",
        "environment: {container: {image: x, arguments: -B}}",
        "secrets: {A: {command: pass}}",
    ],
)
def test_one_text_for_a_list_is_refused_where_it_could_mean_several(text):
    found = problems(f"name: x\n{'' if text.startswith('command') else 'command: [x]'}\n{text}\n")
    assert [m.endswith("takes a list, not one text") for m in found] == [True]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of a framework."""

    agent: bool = key("an option", default=False)
    ports: tuple[int, int] = key("a pair", default=(1, 2))
    ratio: float = key("a number", default=0.5)


def frameworks(name):
    return {"torch": Options, "other": Options}.get(name)


def test_options_of_the_framework_are_complete():
    found = spec("torch: {ports: [3, 4], ratio: 1e-2}", options=frameworks)
    assert found.options == {"agent": False, "ports": (3, 4), "ratio": 0.01}
    assert spec("", options=frameworks).options == {"agent": False, "ports": (1, 2), "ratio": 0.5}
    assert spec("framework: other\nother: {agent: true}", options=frameworks).options["agent"] is True


def test_options_of_another_framework_are_refused():
    assert problems(BASE + "other: {agent: true}", options=frameworks) == [
        "options of `other`, but the framework is `torch`"
    ]


def test_settings_may_hold_options_of_any_framework():
    root = parse("torch: {agent: true}\nother: {agent: nope}\n", Origin(layer=Layer.USER, name="s")).root
    assert (
        decode(root, Spec, options=frameworks, partial=True)
        .problems[0]
        .message.startswith("`other.agent` takes")
    )
    layered = parse(BASE + "other: {agent: true}\n", Origin(layer=Layer.SITE, name="s")).root
    assert decode(layered, Spec, options=frameworks).value.options["agent"] is False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruled:
    """A dataclass with a rule of its own."""

    low: int = key("low", default=0)
    high: int = key("high", default=1)
    inner: Mapping[str, int] = key("numbers", factory=dict)

    def __post_init__(self) -> None:
        if self.low > self.high:
            message = "`low` is more than `high`"
            raise ValueError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Holds one."""

    ruled: Ruled = key("a ruled one")


def test_rules_of_a_dataclass_become_problems():
    assert problems("ruled: {low: 3, high: 2}", Holder) == ["`ruled`: `low` is more than `high`"]


@pytest.mark.parametrize("text", ["1.0", "1e3", "0x10", "+", "1" * 30, "\uff11", "--1", "1 2", "''", "'1'"])
def test_whole_numbers_are_strict(text):
    assert problems(f"ruled: {{inner: {{a: {text}}}}}", Holder)[0].startswith(
        "`ruled.inner.a` takes a whole number"
    )


@pytest.mark.parametrize("text", [".inf", "nan", "1e999", "1:5", "'1'", "0x1"])
def test_numbers_are_strict(text):
    found = problems(BASE + f"torch: {{ratio: {text}}}", options=frameworks)
    assert found[0].startswith("`torch.ratio` takes a number")


def test_a_fault_in_one_place_hides_none_elsewhere():
    found = problems(
        "name: [x]\nresources: {nodes: 0, walltime: 30, hosts: [[a]]}\nzzz: 1\ndata: {a: {strategy: x}}\n"
    )
    assert len(found) == 8
    assert any("`command` is missing" in m for m in found)


def test_origins_and_history_name_every_value():
    decoded = decode(parse(BASE + "resources: {nodes: 2}\ndata: {a: /x}\n", FILE).root, Spec)
    assert {k: (o.line, o.column) for k, o in decoded.origins.items()} == {
        "name": (1, 7),
        "command": (2, 10),
        "command.0": (2, 11),
        "command.1": (2, 19),
        "resources:": (3, 1),
        "resources": (3, 12),
        "resources.nodes": (3, 20),
        "data": (4, 7),
        "data.a": (4, 11),
    }
    assert decoded.history == {}


def test_an_amount_that_is_none_is_told_in_words():
    assert pattern_fault(AMOUNT, "1O%") == "is not an amount such as `10%`, `8 files` or `20GB`"


AMOUNTS = ("10%", "100%", "100.0%", "0.5%", "8 files", "1 file", "20GB", "1.5 GiB", "1B", "0.001kB", " 3% ")
NOT_AMOUNTS = (
    "150%",
    "100.1%",
    "0%",
    "0.0%",
    "0 files",
    "0B",
    "0.0GB",
    "0.2B",
    "1.5 files",
    "٣ files",
    "10",
    "",
)


def test_an_amount_is_more_than_zero_and_at_most_all():
    assert [text for text in AMOUNTS if not re.fullmatch(AMOUNT, text)] == []
    assert [text for text in NOT_AMOUNTS if re.fullmatch(AMOUNT, text)] == []


def numbers_of_data(schema, place, text):
    """Each key of a schema that takes a number, a size or an amount: its place, and this text where a value goes."""
    for name, found in keys(schema).items():
        if {Bytes, int} & set(found.hint.scalars) or found.pattern == AMOUNT:
            yield f"{place}.{name}", text.replace("KEY", name)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        *numbers_of_data(DataSet, "data.x", "data: {x: {source: /d, KEY: VALUE}}"),
        ("resources.node_local", "resources: {node_local: VALUE}"),
    ],
)
def test_no_count_and_no_size_of_data_is_zero(path, text):
    faults = []
    for value in ("0", "0B", "0GB", "0%", "0 files", "0.0 GiB", "-1", "-1B"):
        problems = decode(parse(BASE + text.replace("VALUE", value) + "\n", FILE).root, Spec).problems
        assert [problem.origin.line for problem in problems] == [3], value
        assert problems[0].origin.column == 1 + text.index("VALUE")
        faults.append(problems[0].message)
    assert all(f"`{path}` " in fault for fault in faults)
    assert any("more than zero" in fault or "the minimum is 1" in fault for fault in faults)
