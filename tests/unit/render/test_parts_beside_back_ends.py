"""Parts of the bash library that stand beside a back end: in a job they are files of `lib/`, wherever dlrun is installed."""

from __future__ import annotations

import re

import pytest

from dlrun.errors import Invalid
from dlrun.jobs.submission.files import library_files
from dlrun.resources import directory
from dlrun.schedulers.flux import flux
from tests.making import plan_of, scripts_of

SITE = """\
name: own
scheduler: {type: flux}
launcher: {name: flux}
partitions: {all: {default: true, node_type: node}}
node_types: {node: {topology: {packages: 1, cores: 2}}}
"""
SPEC = "resources: {nodes: 1, ranks_per_node: 1, walltime: 1h}\n"


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """A function that gives the scheduler of `SITE` a part of its own, in a folder whose name must be quoted."""

    def add(name: str) -> str:
        place = tmp_path / "an environment"
        place.mkdir()
        (place / f"{name}.sh").write_text("# of a package\n", "utf-8")
        monkeypatch.setattr(flux, "LIBRARY", (*flux.LIBRARY, str(place / name)))
        return str(place)

    return add


def test_a_job_has_it_by_its_name_alone(tmp_path, beside):
    place = beside("lsf")
    plan = plan_of(tmp_path, SPEC, SITE)
    files = library_files(plan, directory("templates"))
    assert files["lib/lsf.sh"] == "# of a package\n"
    assert all(re.fullmatch(r"lib/[\w-]+\.sh", name) for name in files)
    page = scripts_of(plan)["job.sh"]
    assert re.search(r"^dlrun_source [\w -]+ lsf\b", page, re.MULTILINE)
    assert place not in page


@pytest.mark.parametrize("name", ["job", "start", "rank"])
def test_one_with_the_name_of_another_is_refused(tmp_path, beside, name):
    place = beside(name)
    with pytest.raises(Invalid, match=f"two parts of the library with the name `{name}`") as raised:
        library_files(plan_of(tmp_path, SPEC, SITE), directory("templates"))
    assert f"{place}/{name}.sh" in raised.value.help
