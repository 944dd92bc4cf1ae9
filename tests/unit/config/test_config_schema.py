"""The JSON Schemas: current in the docs, and of one mind with the decoder."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from dlrun import backends
from dlrun.cli.specs.schema import text as schema_text
from dlrun.config.decode import decode
from dlrun.config.document import parse
from dlrun.config.hints import keys, read
from dlrun.config.nodes import ListNode, ScalarNode
from dlrun.config.programs import with_roles
from dlrun.config.secrets import faulty_secrets
from dlrun.config.source import decode_bytes
from dlrun.model.origin import Layer, Origin
from dlrun.model.site import Site
from dlrun.model.spec import Spec
from dlrun.system.inputs.profiles import Machine, load_profile

ROOT = Path(__file__).parents[3]
FILE = Origin(layer=Layer.SPEC, name="x.yaml")
SCHEMAS = {
    Spec: Draft202012Validator(json.loads(schema_text("spec"))),
    Site: Draft202012Validator(json.loads(schema_text("site"))),
}

EXAMPLES = [
    *((Spec, path) for path in sorted((ROOT / "examples").rglob("spec*.yaml"))),
    *((Site, path) for path in sorted((ROOT / "site-configs").glob("*.yaml"))),
]

_INT = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


def plain(node):
    """What an editor's YAML 1.2 parser makes of a tree (core schema)."""
    if isinstance(node, ListNode):
        return [plain(item) for item in node.items]
    if not isinstance(node, ScalarNode):
        return {name: plain(entry.value) for name, entry in node.entries.items()}
    if not node.plain:
        return node.text
    if node.is_null:
        return None
    if node.text in {"true", "false"}:
        return node.text == "true"
    if _INT.fullmatch(node.text):
        return int(node.text)
    return float(node.text) if _FLOAT.fullmatch(node.text) else node.text


@pytest.mark.parametrize("document", ["spec", "site"])
def test_the_committed_copy_is_current(document):
    committed = (ROOT / f"docs/reference/{document}.schema.json").read_text("utf-8")
    assert committed == schema_text(document), (
        f"run `dlrun keys --schema {document} > docs/reference/{document}.schema.json`"
    )


@pytest.mark.parametrize("schema", [Spec, Site])
def test_schemas_are_valid(schema):
    Draft202012Validator.check_schema(SCHEMAS[schema].schema)


@pytest.mark.parametrize("schema", [Spec, Site])
def test_every_key_is_described(schema):
    definitions = [SCHEMAS[schema].schema, *SCHEMAS[schema].schema["$defs"].values()]
    assert all(key["description"] for one in definitions for key in one["properties"].values())


@pytest.mark.parametrize(("schema", "path"), EXAMPLES, ids=lambda value: getattr(value, "stem", None))
def test_what_we_ship_is_accepted_by_both(schema, path):
    document = parse(path.read_text("utf-8"), FILE)
    assert document.problems == ()
    assert list(SCHEMAS[schema].iter_errors(plain(document.root))) == []
    if "extends" in document.root.entries:  # whole only with what it extends
        assert load_profile(path, Machine()).site is not None
        return
    root, roles, faults = with_roles(document.root)
    assert faults == []
    for one in (root, *roles.values()):
        assert decode(one, schema, options=backends.framework_options).problems == ()


def accepted(schema, text):
    root = parse(text, FILE).root
    by_schema = SCHEMAS[schema].is_valid(plain(root))
    found = decode(root, schema, options=backends.framework_options)
    by_decoder = not found.problems and not list(faulty_secrets(root))
    return by_schema, by_decoder


BASE = "name: x\ncommand: [python, train.py]\n"


@pytest.mark.parametrize(
    "text",
    [
        "resources: {walltime: 4h, nodes: 2, ranks_per_node: auto, memory_per_node: all, hosts: n1, partition: no}",
        "resources: {walltime: 1-12:00:00, account: 0123, exclusive: true, memory_per_node: 1.5 TB}",
        "resources:\nenvironment:\nhold: false\ndata:\nsweep: {lr: 0.1, mode: [a, 1, true]}",
        "sweep: {lr: [1], zip: {a: [1], b: x}, list: [{c: 1}], grid: {d: [1]}, at_once: 2}",
        "metrics: {a: '(x)', b: {json: k.l, skip: 3, take: max}, throughput: {unit: images/s}}",
        "data: {a: /x, b: {source: /y, strategy: in_place, size: 2GiB}}\nafter: [12, {job: x, when: any}]",
        "secrets: {A: {env: A}, B: {command: [pass, b]}}",
        "framework: mpi\nmpi: {}",
        "torch: {agent: true}",
        "torch:",
        "after: 12",
        "environment: {modules: gcc/13, setup: source /x y, variables: {A: 1, B: true, C: x}}",
        "environment: {container: {image: x.sif}}\ncheckpoint: {before_end: 1h30m}",
    ],
)
def test_both_accept(text):
    assert accepted(Spec, BASE + text) == (True, True)


@pytest.mark.parametrize(
    "text",
    [
        "resources: {walltime: 30}",
        "resources: {walltime: '30:00'}",
        "resources: {nodes: yes}",
        "resources: {nodes: 0}",
        "resources: {nodes: '4'}",
        "resources: {nodes: 1.5}",
        "resources: {ranks_per_node: many}",
        "resources: {memory_per_node: 512}",
        "resources: {memory_per_node: 512 bytes}",
        "resources: {exclusive: yes}",
        "resources: {partition: ''}",
        "resources: {options: {-x: a}}",
        "resources: {hosts: a b}",
        "resources: {hosts: {a: b}}",
        "environment: {variables: {1A: x}}",
        "environment: {variables: {A: [x]}}",
        "environment: {container: image.sif}",
        "data: {a: {strategy: copy}}",
        "data: {a-b: /x}",
        "secrets: {A: {}}",
        "secrets: {A: {env: A, file: x}}",
        "secrets: {A: plain}",
        "sweep: {lr: []}",
        "sweep: {zip: [1]}",
        "sweep: {list: {a: 1}}",
        "sweep: {a-b: [1]}",
        "metrics: {a: {take: best}}",
        "torch: {agent: yes}",
        "torch: {torchrn: true}",
        "mpi: {}",
        "framework: mpi\ntorch: {}",
        "zzz: 1",
        "options: {}",
        "after: [{when: any}]",
        "hold:",
        "checkpoint: USR1",
    ],
)
def test_both_reject(text):
    assert accepted(Spec, BASE + text) == (False, False)


@pytest.mark.parametrize(
    "text",
    ["name: x", "command: [x]", "name: x\ncommand: train", "name: x\ncommand: []", "name:\ncommand: [x]"],
)
def test_both_want_name_and_command(text):
    assert accepted(Spec, text) == (False, False)


ONLY_DLRUN_CAN_TELL = {"advice", "contradictions", "defaults", "extends_itself", "extends_unknown", "failures"} | {
    "scheduler_contradictions", "topology", "secret_in_variables", "unknown_site", "unknown_site_file",
}  # fmt: skip
"""Faulty files whose fault lies between values, or outside the file."""


@pytest.mark.parametrize("schema", [Spec, Site])
def test_the_schema_rejects_the_faulty_files(schema):
    checked = 0
    for path in sorted((ROOT / "tests/errors" / schema.__name__.lower()).glob("*.yaml")):
        text, problem = decode_bytes(path.read_bytes(), path.name, Layer.SPEC)
        document = parse(text, FILE)
        if (
            problem is None
            and document.root is not None
            and not document.problems
            and path.stem not in ONLY_DLRUN_CAN_TELL
        ):
            assert not SCHEMAS[schema].is_valid(plain(document.root)), path.stem
            checked += 1
    assert checked >= {Spec: 12, Site: 3}[schema]


def test_a_type_that_no_file_can_express_is_a_fault_of_ours():
    with pytest.raises(TypeError, match="no file can express"):
        read(set[int])


def test_every_dataclass_can_be_read():
    assert {"name", "command", "resources"} <= keys(Spec).keys()
    assert keys(Spec)["name"].required
    assert keys(Site)["rendezvous"].default is not None
