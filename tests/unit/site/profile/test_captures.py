"""A node type's `capture:` may be any file that says what a node is made of; all of them give one placement."""

from __future__ import annotations

import json

import pytest

from dlrun.cli import main as cli
from dlrun.config.topology import read_topology
from dlrun.config.topology.short import build
from dlrun.model.topology_short import ShortTopology
from dlrun.site.profile.check import check_profile
from tests.oracles import hwloc_xml
from tests.unit.site.profile.test_node import facts, tree

NODE = build(ShortTopology(packages=2, cores=2, smt=2))


def lscpu():
    rows = sorted(
        (pu, core.package * 2 + core.core_id, core.package) for core in NODE.cores for pu in core.pus
    )
    lines = [f"{pu},{core},{package},{package},,{core},{core},{core},{package}" for pu, core, package in rows]
    return (
        "\n".join(["# The following is the parsable format", "# CPU,Core,Socket,Node,,L1d,L1i,L2,L3", *lines])
        + "\n"
    )


TEXTS = {
    "capture.json": json.dumps(NODE.to_json()),
    "facts.json": facts(tree(2, 2, 2)).text,
    "lstopo.xml": hwloc_xml.write(NODE),
    "lscpu.txt": lscpu(),
}
PROFILE = """\
name: crag
scheduler: {type: slurm, exclusive: true}
launcher: {name: srun}
node_types: {node: {capture: CAPTURE}}
"""


@pytest.fixture
def placed(tmp_path, capsys):
    def run(name):
        (tmp_path / "crag.yaml").write_text(PROFILE.replace("CAPTURE", name))
        words = [
            "--site",
            str(tmp_path / "crag.yaml"),
            "--ranks-per-node",
            "2",
            "--comm-cores",
            "1",
            "--format",
            "json",
        ]
        code = cli.run(["tune-affinity", *words])
        out, err = capsys.readouterr()
        return code, json.loads(out)["ranks"] if code == 0 else err

    return run


@pytest.mark.parametrize("name", TEXTS)
def test_any_form_of_capture_is_read(tmp_path, placed, name):
    (tmp_path / name).write_text(TEXTS[name])
    code, ranks = placed(name)
    assert code == 0
    assert [(rank["cores"], rank["comm"], rank["mask"]) for rank in ranks] == [
        ([0], [1], [0, 4]),
        ([2], [3], [2, 6]),
    ]
    assert not [p for p in check_profile(str(tmp_path / "crag.yaml")).problems if p.code == "DLR059"]
    assert read_topology(TEXTS[name]).pus() == NODE.pus()


@pytest.mark.parametrize(
    ("name", "text"), [("none.json", None), ("other.txt", "hello"), ("other.json", "{}"), ("x.xml", "<a/>")]
)
def test_what_is_no_capture_is_said_at_its_place(tmp_path, placed, name, text):
    if text is not None:
        (tmp_path / name).write_text(text)
    code, said = placed(name)
    assert code == 2
    assert "`node_types.node.capture`: " in said
    assert "crag.yaml:4:" in said
