"""Merging layers, and what `--set` and `DLRUN_SET_*` put on top."""

from __future__ import annotations

import pytest

from dlrun.config import layers
from dlrun.config.decode import decode
from dlrun.config.document import parse
from dlrun.config.nodes import ScalarNode
from dlrun.config.wording import yaml_text
from dlrun.model.origin import Layer, Origin
from dlrun.model.program import Secret
from dlrun.model.spec import Spec

BASE = "name: x\ncommand: [python, train.py]\n"


def tree(text, layer=Layer.SPEC):
    return parse(text, Origin(layer=layer, name=f"{layer}.yaml")).root


def decoded(*roots, sets=(), environment=None):
    root = layers.merge_all(roots)
    for given in (layers.from_environment(environment or {}), *map(layers.parse_set, sets)):
        assert given.problems == ()
        for assignment in given.assignments:
            root, problems = layers.assign(root, assignment)
            assert problems == ()
    found = decode(root, Spec)
    assert found.problems == ()
    return found


def test_stronger_layers_win_and_say_what_they_hid():
    site = tree("resources: {partition: gpu, walltime: 1h}\nenvironment: {modules: [a]}", Layer.SITE)
    user = tree("resources: {account: me, partition: cpu}", Layer.USER)
    spec = tree(f"{BASE}resources: {{walltime: 4h}}\nenvironment: {{modules: [b]}}")
    found = decoded(
        site, user, spec, sets=["resources.walltime=8h"], environment={"DLRUN_SET_RESOURCES__WALLTIME": "6h"}
    )
    resources = found.value.resources
    assert (resources.partition, resources.account, resources.walltime) == ("cpu", "me", 8 * 3600)
    assert found.value.environment.modules == ("b",)
    assert str(found.origins["resources.walltime"]) == "--set resources.walltime=8h"
    hidden = found.history["resources.walltime"]
    assert [(given.text, given.origin.layer) for given in hidden] == [
        ("6h", Layer.ENVIRONMENT),
        ("4h", Layer.SPEC),
        ("1h", Layer.SITE),
    ]
    assert [str(given.origin) for given in found.history["resources.partition"]] == ["site profile.yaml:1:24"]
    assert found.origins["resources.account"].layer == Layer.USER
    assert found.history["environment.modules"][0].text == "[a]"
    assert str(found.origins["resources"]) == "spec.yaml:3:12"


def test_nothing_takes_a_weaker_value_back():
    assert (
        decoded(
            tree("resources: {partition: gpu}"), tree(BASE + "resources: {partition: null}")
        ).value.resources.partition
        is None
    )


def test_sources_of_a_secret_do_not_add_up():
    user = tree("secrets: {A: {env: A}, B: {env: B}}", Layer.USER)
    found = decoded(user, tree(BASE + "secrets: {A: {file: ~/a}}"))
    assert found.value.secrets == {"A": Secret(file="~/a"), "B": Secret(env="B")}


def test_append():
    found = decoded(tree(BASE), sets=["command+=--lr", "command+=[0.1, 'a b']", "environment.modules+=gcc"])
    assert found.value.command == ("python", "train.py", "--lr", "0.1", "a b")
    assert found.value.environment.modules == ("gcc",)
    assert found.origins["command.1"].line == 2
    assert str(found.origins["command.4"]) == "--set command+=[0.1, 'a b']"


def test_append_to_one_text():
    assert decoded(
        tree(BASE + "environment: {modules: a}"), sets=["environment.modules+=b"]
    ).value.environment.modules == ("a", "b")


def test_append_to_a_mapping_is_refused():
    (assignment,) = layers.parse_set("resources+=x").assignments
    root, (problem,) = layers.assign(tree(BASE + "resources: {nodes: 1}"), assignment)
    assert problem.message == "`+=` appends to a list, but `resources` is a mapping"
    assert root == tree(BASE + "resources: {nodes: 1}")


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("a=b", ("a",), "b"),
        ("a.b.c=x=y+=z", ("a", "b", "c"), "x=y+=z"),
        ("a = 'x y'", ("a",), "x y"),
        ("a=", ("a",), ""),
        ("a=10:00:00", ("a",), "10:00:00"),
    ],
)
def test_set(text, path, value):
    (assignment,), problems = layers.parse_set(text)
    assert (assignment.path, assignment.value.text, problems) == (path, value, ())


@pytest.mark.parametrize("text", ["", "a", "=b", "a..b=c", ".a=b", "+=x"])
def test_set_needs_key_and_value(text):
    assignments, problems = layers.parse_set(text)
    assert assignments == ()
    assert problems[0].message == "`--set` needs `KEY=VALUE`"


def test_set_with_broken_yaml():
    assert layers.parse_set("command=[a").problems[0].message == "this list is not closed"


def test_flags_do_not_show_secrets():
    (assignment,), _ = layers.parse_set("environment.variables.HF_TOKEN=canary")
    assert "canary" not in str(assignment.value.origin)
    assert str(assignment.value.origin) == "--set environment.variables.HF_TOKEN=…"


def test_overridden_secrets_are_not_shown():
    user = tree("environment: {variables: {HF_TOKEN: canary}}", Layer.USER)
    root = layers.merge_all([user, tree(BASE + "environment: {variables: {HF_TOKEN: ''}}")])
    assert "canary" not in repr(decode(root, Spec).history)


def test_variables_spell_keys():
    environment = {
        "DLRUN_SET_RESOURCES__RANKS_PER_NODE": "4",
        "DLRUN_SET_ENVIRONMENT__VARIABLES__NCCL_DEBUG": "INFO",
        "DLRUN_SET_DATA__ImageNet__SOURCE": "/x",
        "DLRUN_SET_RESOURCES__HOSTS": "[a, b]",
        "DLRUN_SITE": "ignored",
        "OTHER": "ignored",
    }
    found = decoded(tree(BASE), environment=environment).value
    assert (found.resources.ranks_per_node, found.resources.hosts) == (4, ("a", "b"))
    assert found.environment.variables == {"NCCL_DEBUG": "INFO"}
    assert found.data["ImageNet"].source == "/x"


def test_variables_that_name_no_key():
    assert (
        layers.from_environment({"DLRUN_SET_": "x", "DLRUN_SET_A____B": "y"}).problems[0].message
        == "`DLRUN_SET_` does not name a key"
    )
    assert len(layers.from_environment({"DLRUN_SET_": "x", "DLRUN_SET_A____B": "y"}).problems) == 2


def test_merge_changes_neither_tree():
    weaker, stronger = tree("a: {b: 1, c: 2}"), tree("a: {b: 3}")
    copies = tree("a: {b: 1, c: 2}"), tree("a: {b: 3}")
    merged = layers.merge(weaker, stronger)
    assert (weaker, stronger) == copies
    node = merged.get("a", "b")
    assert isinstance(node, ScalarNode)
    assert (node.text, node.overrode.text, merged.get("a", "c").text) == ("3", "1", "2")


@pytest.mark.parametrize("text", ["@", "@home", "`x`", "%a"])
def test_what_yaml_reserves_is_quoted(text):
    """`@` and the backtick cannot begin a plain YAML text, nor `%` a line."""
    assert yaml_text(text) == f'"{text}"'
