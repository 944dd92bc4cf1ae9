"""Any text that YAML can hold arrives in the model as it is, and any value that is shown reads back."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings, strategies as st

from dlrun import backends
from dlrun.config import layers
from dlrun.config.decode import decode
from dlrun.config.document import LOADER, PURE_LOADER, parse
from dlrun.config.wording import yaml_text
from dlrun.model.origin import Layer, Origin
from dlrun.model.problem import MAX_PROBLEMS, InvalidFile
from dlrun.model.spec import Spec
from dlrun.model.units import Bytes, Duration
from dlrun.system.inputs.profiles import Machine
from dlrun.system.inputs.spec import load_spec
from dlrun.terminal.diagnostics import report
from tests.examples import cases, examples

FILE = Origin(layer=Layer.SPEC, name="spec.yaml")
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)
NAME = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True)


@given(st.lists(TEXT, min_size=1, max_size=4), st.dictionaries(NAME, TEXT, max_size=3))
@settings(max_examples=examples(150), deadline=None)
def test_texts_arrive_as_they_are(command, variables):
    lines = ["name: x", f"command: [{', '.join(map(yaml_text, command))}]", "environment:", "  variables:"]
    lines += [f"    {yaml_text(name)}: {yaml_text(value)}" for name, value in variables.items()]
    for loader in (LOADER, PURE_LOADER):
        document = parse("\n".join(lines), FILE, loader=loader)
        assert document.problems == ()
        found = decode(document.root, Spec)
        assert found.problems == ()
        assert (list(found.value.command), dict(found.value.environment.variables)) == (command, variables)


@given(TEXT)
@settings(max_examples=examples(150), deadline=None)
def test_set_takes_any_text_in_quotes(text):
    (assignment,), problems = layers.parse_set(f"command+={yaml_text(text)}")
    assert problems == ()
    assert assignment.value.text == text


@given(st.text(max_size=60))
@settings(max_examples=examples(300), deadline=None)
def test_any_text_is_parsed_alike_with_and_without_libyaml(text):
    fast, pure = (parse(text, FILE, loader=loader) for loader in (LOADER, PURE_LOADER))
    if not fast.problems and not pure.problems:  # libyaml takes some tabs that PyYAML does not
        assert fast.root == pure.root


@given(st.integers(0, 10**14))
def test_sizes_and_times_read_back(number):
    size = Bytes(number)
    assert abs(Bytes.parse(str(size)) - size) <= size * 0.06  # rounded to one decimal if not exact
    span = Duration(number % 10**8)
    assert Duration.parse(str(span)) == Duration.parse(span.clock()) == span


TREES = st.recursive(TEXT, lambda inner: st.dictionaries(NAME, inner, max_size=3), max_leaves=8)
MAPPINGS = st.dictionaries(NAME, TREES, max_size=4)


def tree(data):
    def write(value):
        if isinstance(value, dict):
            return "{" + ", ".join(f"{yaml_text(k)}: {write(v)}" for k, v in value.items()) + "}"
        return yaml_text(value)

    return parse(write(data), FILE).root


def plain(node):
    return {k: plain(e.value) for k, e in node.entries.items()} if hasattr(node, "entries") else node.text


def merged(weaker, stronger):
    if not (isinstance(weaker, dict) and isinstance(stronger, dict)):
        return stronger
    return weaker | {k: merged(weaker[k], v) if k in weaker else v for k, v in stronger.items()}


@given(MAPPINGS, MAPPINGS, MAPPINGS)
@settings(max_examples=examples(100), deadline=None)
def test_layers_merge_key_by_key(first, second, third):
    found = layers.merge_all([tree(first), tree(second), tree(third)])
    assert plain(found) == merged(merged(first, second), third)


BASE = "name: x\ncommand: [a]\n"
MEBIBYTE = examples(2**20) - 200
LINES = MEBIBYTE // 20
HOSTILE = {
    "brackets": "[" * MEBIBYTE,
    "mappings": "{a: " * (MEBIBYTE // 4),
    "quotes": BASE + "zz: " + "'" * MEBIBYTE,
    "colons": BASE + "zz: " + "a :" * (MEBIBYTE // 3),
    "unknown keys": BASE + "".join(f"k{i}: 1\n" for i in range(LINES)),
    "equal keys": BASE + "a: 1\n" * (3 * LINES),
    "secrets": BASE + "environment:\n  variables:\n" + "".join(f"    T{i}_TOKEN: x\n" for i in range(LINES)),
    "secret sources": BASE + "secrets:\n" + "".join(f"  T{i}: x\n" for i in range(LINES)),
    "one word": BASE + "zz: " + "a_token_" * (MEBIBYTE // 8),
    "spaces": BASE + "resources: {walltime: '1" + " " * (MEBIBYTE - 100) + "'}",
    "aliases": BASE + "".join(f"k{i}: *a\n" for i in range(LINES)),
    "tags": BASE + "".join(f"k{i}: !a b\n" for i in range(LINES)),
}


@pytest.mark.parametrize("name", cases(HOSTILE, quick=3))
def test_a_mebibyte_of_anything_is_answered_in_seconds(name, tmp_path):
    """In the quick tests a tenth of one."""
    here = Machine(environment={"PATH": ""}, home=tmp_path, root=tmp_path, host="laptop")
    path = tmp_path / "spec.yaml"
    path.write_text(HOSTILE[name])
    before = time.process_time()
    with pytest.raises(InvalidFile) as raised:
        load_spec(path, options=backends.framework_options, here=here)
    assert len(report(raised.value)) < 100_000
    assert len(raised.value.problems) <= 2 * MAX_PROBLEMS
    assert time.process_time() - before < 30  # about a second; anything quadratic takes hours
