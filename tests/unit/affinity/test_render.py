"""Tables, pictures, scripts, and respect for what the user has set."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from dlrun.affinity.bind import library
from dlrun.affinity.drawing.blocks import blocks
from dlrun.affinity.drawing.svg import svg
from dlrun.affinity.formats import FORMATS
from dlrun.affinity.formats.registry import format_named
from dlrun.affinity.override import changes, site_override
from dlrun.affinity.settings import BindingContext, kept, settings
from dlrun.errors import Invalid
from dlrun.plan.affinity import PlacementRequest, place
from dlrun.plan.affinity.presets import preset
from dlrun.render.patch import patched
from dlrun.render.placement_table import compact, rows
from dlrun.site.profile.check import check_profile
from tests.affinity_formats import READERS
from tests.examples import cases
from tests.making import plan_in
from tests.programs import need, with_venv
from tests.unit.affinity.machines import FOLDER, topology

MACHINES = sorted(path.stem for path in FOLDER.glob("*.json"))


def test_table_shows_only_columns_with_something_in_them():
    node = topology("stampede2")
    titles, *cells = rows(place(node, PlacementRequest(ranks_per_node=2, comm_cores=2)))
    assert titles == ["rank", "threads", "cores", "comm", "memory"]
    assert cells[0] == ["0", "22", "0-36:2,40,44,46", "38,42", "strict 0"]


def test_compact_lists_name_steps():
    assert compact([0, 2, 4, 6, 9, 10, 20]) == "0-6:2,9-10,20"
    assert compact([1, 5]) == "1,5"
    assert compact([]) == ""


def test_blocks_show_every_core_once():
    node = topology("lumi-g")
    placement = place(node, PlacementRequest(ranks_per_node=8, comm_cores=1))
    text = blocks(placement, node, colour=False)
    assert "|##4 4 4 4 4 4 4*|##5 5 5 5 5 5 5*|" in text
    assert text.count("##") == 8 + 1  # and the legend
    assert "[GPU 0: rank 0]" in text
    assert "\033" not in text
    assert "\033[48;5;" in blocks(placement, node, colour=True)


@pytest.mark.parametrize("machine", MACHINES)
def test_svg_is_well_formed_and_shows_every_core_inside_the_picture(machine):
    node = topology(machine)
    placement = place(node, PlacementRequest(ranks_per_node=2))
    root = ET.fromstring(svg(placement, replace(node, name="<&>")))
    space = "{http://www.w3.org/2000/svg}"
    numbers = [e.text for e in root.iter(f"{space}text") if e.get("text-anchor") == "middle"]
    assert sorted(map(int, numbers)) == sorted(core.pus[0] for core in node.cores)
    for rect in root.iter(f"{space}rect"):
        x, y = float(rect.get("x") or 0), float(rect.get("y") or 0)
        assert x + float(rect.get("width")) <= float(root.get("width"))
        assert y + float(rect.get("height")) <= float(root.get("height"))


def test_what_the_user_set_is_respected_and_said():
    node = topology("skx-block")
    placement = place(node, PlacementRequest(ranks_per_node=2, comm_cores=2))
    job = BindingContext(
        preset=preset("intelcaffe"), given={"OMP_NUM_THREADS": "4", "OMP_PLACES": "cores", "HOME": "/root"}
    )
    names = {s.name for s in settings(placement, job)}
    assert names.isdisjoint({"OMP_NUM_THREADS", "KMP_AFFINITY", "KMP_HW_SUBSET", "OMP_PLACES"})
    assert "MKL_NUM_THREADS" in names
    assert kept(placement, job) == (
        "OMP_NUM_THREADS=4 is already set and is kept",
        "KMP_AFFINITY, KMP_HW_SUBSET not set, because OMP_PLACES is already set",
    )
    assert kept(placement, BindingContext()) == ()


@pytest.mark.slow
@pytest.mark.needs
@pytest.mark.parametrize("machine", cases(["stampede2", "lumi-g", "two-cpus"], quick=1))
def test_the_wrapper_is_clean_shell(machine, tmp_path):
    node = topology(machine)
    placement = place(node, PlacementRequest(ranks_per_node=2, loader_cores=0))
    script = tmp_path / "bind.sh"
    script.write_text(
        format_named("wrapper").emit(
            placement, node, BindingContext(preset=preset("intelcaffe"), library=library())
        )
    )
    shellcheck = need("shellcheck", path=with_venv())
    done = subprocess.run([shellcheck, script], capture_output=True, text=True, check=False)
    assert done.stdout == ""


def test_unknown_formats_and_foreign_text_are_refused():
    with pytest.raises(Invalid, match="no format"):
        format_named("yaml")
    for name in set(FORMATS) - {"env", "wrapper", "json"}:
        with pytest.raises(ValueError, match=r"no |not a |binds no"):
            READERS[name]("something else\n", topology("two-cpus"))


SPEC = """\
name: x  # mine
placement:
  # how
  smt: one      # keep
  loader_cores: 1

resources:
  nodes: 2
"""


def test_a_winner_goes_into_a_spec_and_nothing_else_changes():
    computed = PlacementRequest(ranks_per_node=2)
    winner = replace(computed, ranks_per_node=4, comm_cores=1, smt="all")
    wanted = changes(computed, winner)
    assert wanted == {"resources": {"ranks_per_node": "4"}, "placement": {"comm_cores": "1", "smt": "all"}}
    sets = {f"{section}.{name}": value for section, of in wanted.items() for name, value in of.items()}
    assert patched(SPEC, sets) == SPEC.replace("smt: one ", "smt: all ").replace(
        "loader_cores: 1\n", "loader_cores: 1\n  comm_cores: 1\n"
    ).replace("nodes: 2\n", "nodes: 2\n  ranks_per_node: 4\n")


def test_a_winner_goes_into_an_override_of_a_site(tmp_path):
    wanted = {"placement": {"comm_cores": "1", "smt": "all"}, "resources": {"ranks_per_node": "2"}}
    text = site_override("quick", "lumi-g", wanted, cite="measured: here", date="2026-01-02")
    (tmp_path / "quick.yaml").write_text(text)
    assert [p for p in check_profile(str(tmp_path / "quick.yaml")).problems if p.code != "DLR058"] == []
    (tmp_path / "train").write_text("")
    spec = "name: t\nsite: ./quick.yaml\ncommand: [./train]\nresources: {account: project_465000001, walltime: 1h}\n"
    (tmp_path / "spec.yaml").write_text(spec)
    plan = plan_in(tmp_path)
    assert (len(plan.binding.placement.ranks), len(plan.binding.placement.ranks[0].comm)) == (2, 1)
