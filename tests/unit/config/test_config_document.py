"""YAML to nodes: texts as typed, places in characters, the same with libyaml and without."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

from dlrun.config.document import LOADER, MAX_DEPTH, MAX_NODES, PURE_LOADER, parse
from dlrun.config.nodes import ListNode, MapNode, ScalarNode
from dlrun.config.source import MAX_BYTES, decode_bytes
from dlrun.model.origin import Layer, Origin

FILE = Origin(layer=Layer.SPEC, name="spec.yaml")
CASES = sorted((Path(__file__).parents[2] / "errors").glob("*/*.yaml"))


@pytest.fixture(params=sorted({LOADER, PURE_LOADER}, key=str), ids=lambda loader: loader.__name__)
def loader(request):
    return request.param


def texts(node):
    if isinstance(node, ScalarNode):
        return node.text
    if isinstance(node, ListNode):
        return [texts(item) for item in node.items]
    return {name: texts(entry.value) for name, entry in node.entries.items()}


def test_values_keep_the_characters_typed(loader):
    document = parse(
        "[no, 0123, 3.10, 1e-4, 10:00:00, 0x1F, null, ~, 2024-01-01, 'true', '']", FILE, loader=loader
    )
    expected = ["no", "0123", "3.10", "1e-4", "10:00:00", "0x1F", "null", "~", "2024-01-01", "true", ""]
    assert texts(document.root) == expected
    assert [item.plain for item in document.root.items] == [True] * 9 + [False] * 2


def test_places_count_characters(loader):
    document = parse("ключ: [ä, 日本, x]\nb:\n  - 'y z'\n", FILE, loader=loader)
    root = document.root
    places = [(i.origin.line, i.origin.column, i.width) for i in root.entries["ключ"].value.items]
    assert places == [(1, 8, 1), (1, 11, 2), (1, 15, 1)]
    item = root.get("b").items[0]
    assert (item.origin.line, item.origin.column, item.width, item.span) == (3, 5, 5, (24, 29))
    assert root.entries["b"].key.origin.line == 2


def test_crlf_and_byte_order_mark_do_not_shift_places(loader):
    text, problem = decode_bytes(b"\xef\xbb\xbfname: x\r\ncommand: [a]\r\n", "spec.yaml", Layer.SPEC)
    assert problem is None
    root = parse(text, FILE, loader=loader).root
    assert (root.get("name").origin.column, root.entries["command"].key.origin.line) == (7, 2)


def test_aliases_stand_for_whole_values(loader):
    document = parse("a: &list [x, y]\nb: *list\nc: &text z\n*text : *text\n", FILE, loader=loader)
    assert document.problems == ()
    assert texts(document.root) == {"a": ["x", "y"], "b": ["x", "y"], "c": "z", "z": "z"}
    assert document.root.get("b").origin.line == 1


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}-{case.stem}")
def test_both_parsers_find_the_same(case):
    text, problem = decode_bytes(case.read_bytes(), "spec.yaml", Layer.SPEC)
    if problem is None:
        fast, pure = (parse(text, FILE, loader=one) for one in (LOADER, PURE_LOADER))
        assert [(p.message, p.help, p.origin.line) for p in fast.problems] == [
            (p.message, p.help, p.origin.line) for p in pure.problems
        ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb\nc: 2\n", "a line that is not `key: value`"),
        ('a: "\\UFFFFFFFF"', "this escape sequence does not exist"),
        ("&a &b c", "nothing can follow the end of the top-level value"),
        ("a: [x]]", "unexpected text after a complete value"),
        ("a: %x", "this character cannot start a value"),
        ("a:\n  - b\n c: d\n", "this line does not continue the mapping or list above it"),
        ("%YAML x\n--- a", "not valid YAML: "),
        ("a: " + "x" * MAX_BYTES, "the text is longer than 1 MiB"),
    ],
)
def test_broken_yaml(text, message, loader):
    document = parse(text, FILE, loader=loader)
    assert document.root is None
    assert document.problems[-1].message.startswith(message)


def test_lone_surrogate_is_refused(loader):
    document = parse('a: "\\ud800"', FILE, loader=loader)
    assert len(document.problems) == 1


def test_depth_is_limited_exactly(loader):
    assert parse("[" * MAX_DEPTH + "]" * MAX_DEPTH, FILE, loader=loader).problems == ()
    deeper = parse("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), FILE, loader=loader)
    assert deeper.problems[0].message == f"nested more than {MAX_DEPTH} deep"


def test_depth_does_not_use_the_interpreter_stack(loader):
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(120)
    try:
        document = parse("{a: " * 50_000, FILE, loader=loader)
    finally:
        sys.setrecursionlimit(limit)
    assert document.problems[0].message.startswith("nested more than")


def test_expanded_aliases_are_counted(loader):
    thousand = "a: &a [" + ", ".join(["x"] * 1000) + "]\n"
    few, many = (f"{thousand}b: [{', '.join(['*a'] * count)}]\n" for count in (90, 110))
    assert parse(few, FILE, loader=loader).problems == ()
    assert f"more than {MAX_NODES} values" in parse(many, FILE, loader=loader).problems[0].message


def test_a_flag_has_no_lines():
    flag = Origin(layer=Layer.FLAG, name="--set a")
    document = parse("[x, {b: c}]", flag, lines=False)
    assert {document.root.origin, *(item.origin for item in document.root.items)} == {flag}
    assert parse("[x", flag, lines=False).problems[0].origin == flag


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n...\n", "~", "null"])
def test_nothing(text, loader):
    document = parse(text, FILE, loader=loader)
    assert document.problems == ()
    assert document.root is None or document.root.is_null


def test_get_walks_mappings_only():
    root = parse("a: {b: [c]}", FILE).root
    assert isinstance(root, MapNode)
    assert isinstance(root.get("a", "b"), ListNode)
    assert root.get("a", "b", "c") is None
    assert root.get("x") is None


def test_the_fast_parser_is_used_where_it_exists():
    assert LOADER is getattr(yaml, "CSafeLoader", yaml.SafeLoader)
