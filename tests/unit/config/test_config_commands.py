"""`dlrun keys --schema` and `dlrun site`, run whole."""

from __future__ import annotations

import json

import pytest

from dlrun.cli.main import run
from dlrun.config.decode import decode
from dlrun.config.document import parse
from dlrun.config.nodes import ListNode, ScalarNode
from dlrun.model.origin import Layer, Origin
from dlrun.model.site import Site
from dlrun.system.inputs.profiles import Machine, locate
from dlrun.system.inputs.spec import load_site

PROFILE = """\
name: mine
title: "It's: mine"
centre: '123'
scheduler: {type: slurm, version: 23.11, required: [account]}
launcher: {name: srun}
partitions: {"no": {max_walltime: 1-00:00:00, default: true}}
node_types: {a: {count: 4, topology: {cores: 4, numbering: block}}, b: {count: 2}}
fabric: {name: slingshot, versions: {nccl: 2.21}}
sources: [{cite: here, covers: []}]
"""


@pytest.fixture(autouse=True)
def machine(tmp_path, monkeypatch):
    """No settings, no sites but one of our own and the shipped ones."""
    for name in (
        "DLRUN_SITE_PATH",
        "DLRUN_SITE",
        "XDG_CONFIG_HOME",
        "SLURM_CONF",
        "PBS_SERVER",
        "PBS_DEFAULT",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    sites = tmp_path / ".config/dlrun/sites"
    sites.mkdir(parents=True)
    (sites / "mine.yaml").write_text(PROFILE)
    return sites


def test_schema(capsys):
    assert run(["schema", "spec"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "dlrun training spec"
    assert run(["schema", "site"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "dlrun site profile"


def test_list(capsys):
    assert run(["site", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["NAME", "CENTRE", "SCHEDULER", "NODES", "FABRIC", "CONFIDENCE", "STATUS"]
    assert ["mine", "123", "slurm", "6", "slingshot", "-", "production"] in [line.split() for line in lines]
    assert any(line.startswith("workstation ") for line in lines)


@pytest.mark.slow
def test_list_names_broken_profiles_and_goes_on(capsys, machine):
    (machine / "broken.yaml").write_text("name: [\n")
    (machine / "binary.yaml").write_bytes(b"\0")
    assert run(["site", "list", "--json"]) == 0
    captured = capsys.readouterr()
    rows = {row["name"]: row for row in json.loads(captured.out)["sites"]}
    assert (rows["broken"]["problems"], rows["binary"]["problems"], rows["mine"]["problems"]) == (1, 1, 0)
    assert run(["site", "list"]) == 0
    assert "`broken` has problems; `dlrun site check broken` lists them" in capsys.readouterr().err


def flat(node):
    if isinstance(node, ScalarNode):
        return node.text
    return (
        [flat(i) for i in node.items]
        if isinstance(node, ListNode)
        else {k: flat(e.value) for k, e in node.entries.items()}
    )


def test_show_prints_a_profile_that_reads_back(capsys):
    assert run(["site", "show", "mine"]) == 0
    out = capsys.readouterr().out
    document = parse(out, Origin(layer=Layer.SITE, name="shown"))
    assert document.problems == ()
    assert flat(document.root) == flat(load_site("mine").profile.root)
    assert decode(document.root, Site, document="site").value == load_site("mine").site
    assert "# " in out
    assert "mine.yaml:6:35" in out


def test_show_json(capsys):
    assert run(["site", "show", "mine", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)["site"]
    assert data["profile"]["partitions"]["no"]["max_walltime"] == 86400
    assert data["origins"]["scheduler.version"].endswith("mine.yaml:4:35")


def test_show_without_a_name_is_this_machine(capsys):
    assert run(["site", "show"]) == 0
    captured = capsys.readouterr()
    assert "name: workstation" in captured.out
    assert "no scheduler's client is on PATH" in captured.err


def test_check(capsys):
    assert run(["site", "check", "generic-slurm"]) == 0
    assert capsys.readouterr().err == "generic-slurm: no findings\n"
    assert run(["site", "check", "mine"]) == 0
    assert "warning[DLR058]: `recognise` is not given" in capsys.readouterr().err
    assert run(["site", "check", "mine", "--strict"]) == 2


def test_check_several(capsys, machine):
    (machine / "bad.yaml").write_text(
        PROFILE.replace("mine", "bad").replace("srun", "srn").replace("slurm", "slrum")
    )
    assert run(["site", "check", "generic-slurm", "bad", "--json"]) == 2
    first, second = json.loads(capsys.readouterr().out)["checks"]
    facts = [fact["key"] for fact in first.pop("facts")]
    assert first == {"site": "generic-slurm", "problems": [], "missing": []}
    assert "launcher.name" in facts
    assert [p["message"] for p in second["problems"] if p["severity"] == "error"] == [
        "dlrun does not support the scheduler `slrum`",
        "dlrun does not support the launcher `srn`",
    ]


def test_check_of_nothing(capsys):
    assert run(["site", "check", "none"]) == 2
    assert "there is no site `none`" in capsys.readouterr().err


def test_unknown_site_is_an_error_without_traceback(capsys):
    assert run(["site", "show", "workstatio"]) == 2
    assert "the nearest is `workstation`" in capsys.readouterr().err


def test_a_site_of_another_scheduler_is_said_to_be_that(tmp_path):
    assert "Fujitsu's PJM" in locate("Fugaku", Machine(), tmp_path).help


def test_error_format(capsys, machine):
    (machine / "bad.yaml").write_text(PROFILE + "zzz: 1\n")
    assert run(["--error-format", "concise", "site", "check", "bad"]) == 2
    assert "bad.yaml:10:1: unknown key `zzz` [DLR059]\n" in capsys.readouterr().err


def test_a_site_of_this_machine_is_found_by_leaving_the_key_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("auto", "default"):
        found = locate(name, Machine(), tmp_path)
        assert found.message == f"there is no site `{name}`"
        assert found.help.startswith("leave `site:` and `--site` out")
