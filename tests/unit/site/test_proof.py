"""The proof of a profile's values: documented by its sources, or measured by `dlrun site test` and recorded."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date

import pytest

from dlrun.resources import directory
from dlrun.site.profile.check import check_profile, proof_lines
from dlrun.site.testing.fact import Fact
from dlrun.site.testing.recorded import record
from dlrun.site.testing.run import Verdicts
from dlrun.system.inputs.profiles import Machine, load_site
from dlrun.system.inputs.proof import proofs, read, summary

PROFILE = """\
name: fell
sources:
  - {covers: [partitions, launcher], cite: "https://fell.example/queues", date: 2024-03}
  - {covers: [partitions.gpu.max_nodes], cite: "https://fell.example/limits", date: 2026-02}
scheduler: {type: slurm}
launcher: {name: srun, arguments: [--mpi=pmix]}
partitions:
  gpu: {default: true, max_walltime: 1d, max_nodes: 4, node_type: n}
node_types:
  n: {memory: 64GiB, topology: {packages: 2, cores: 8}}
"""


@pytest.fixture
def here(tmp_path):
    return Machine(environment={}, home=tmp_path / "home", root=tmp_path / "root", host="fell1")


@pytest.fixture
def loaded(tmp_path, here):
    path = tmp_path / "fell.yaml"
    path.write_text(PROFILE)
    return load_site(path, here=here)


def verdicts_of(loaded, *facts):
    """Verdicts with the place of each key, as `dlrun site test` gives them."""
    origins = loaded.profile.origins
    placed = [replace(fact, origin=origins.get(fact.key)) for fact in facts]
    return Verdicts(loaded=loaded, facts=placed, jobs=1, hosts=frozenset({"n1"}))


def holds(key, where="n1"):
    return Fact(key=key, verdict="holds", seen="as stated", where=where)


def text_of(loaded, here, key):
    return next(one.text for one in proofs(loaded, here) if one.fact == key)


DAY = date(2026, 11, 20)


def test_a_value_has_the_date_of_the_source_that_names_it_most_specifically(loaded, here):
    assert text_of(loaded, here, "partitions.gpu.max_walltime") == "documented 2024-03"
    assert text_of(loaded, here, "partitions.gpu.max_nodes") == "documented 2026-02"
    assert text_of(loaded, here, "scheduler.type") == ""


def test_what_holds_is_measured_until_the_value_changes(loaded, here, tmp_path):
    said = []
    done = verdicts_of(
        loaded, holds("node_types.n.memory"), holds("partitions.gpu.max_walltime", "the scheduler")
    )
    assert record(done, said.append, here=here, today=DAY) == tmp_path / "fell.measured.json"
    assert "recorded 2 values" in said[0]
    assert text_of(loaded, here, "node_types.n.memory") == "measured on n1, 2026-11-20"
    assert text_of(loaded, here, "partitions.gpu.max_walltime") == "measured by the scheduler, 2026-11-20"
    assert text_of(loaded, here, "node_types.n.topology.cores") == ""
    (tmp_path / "fell.yaml").write_text(PROFILE.replace("64GiB", "60GiB"))
    assert text_of(load_site(tmp_path / "fell.yaml", here=here), here, "node_types.n.memory") == ""


def test_ranks_that_began_prove_the_launcher_and_its_arguments(loaded, here):
    record(verdicts_of(loaded, holds("launcher", "gpu (n)")), print, here=here, today=DAY)
    assert text_of(loaded, here, "launcher.name") == "measured in a job on gpu (n), 2026-11-20"
    assert text_of(loaded, here, "launcher.arguments") == "measured in a job on gpu (n), 2026-11-20"


def test_a_value_that_differs_loses_its_record_and_others_keep_theirs(loaded, here):
    record(
        verdicts_of(loaded, holds("node_types.n.memory"), holds("node_types.n.topology.cores")),
        print,
        here=here,
        today=DAY,
    )
    wrong = Fact(key="node_types.n.memory", verdict="differs", seen="jobs can have 9 MiB", where="n1")
    record(verdicts_of(loaded, wrong), print, here=here, today=DAY)
    assert read(loaded.path, here).keys() == {"node_types.n.topology.cores"}


def test_a_key_that_the_profile_does_not_have_is_not_recorded(loaded, here, tmp_path):
    absent = Fact(key="node_types.n.topology.smt", verdict="holds", seen="1 thread", where="n1")
    there = loaded.profile.origins["node_types.n.topology"]
    done = Verdicts(loaded=loaded, facts=[replace(absent, origin=there)], jobs=1, hosts=frozenset({"n1"}))
    assert record(done, print, here=here, today=DAY) is None
    assert not (tmp_path / "fell.measured.json").exists()


def test_nothing_is_written_beside_a_profile_that_comes_with_dlrun(here):
    shipped = load_site("delta", here=here)
    written = record(verdicts_of(shipped, holds("node_types.cpu.memory")), print, here=here, today=DAY)
    assert written == here.settings / "sites" / "delta.measured.json"
    assert not (directory("site-configs") / "delta.measured.json").exists()
    assert text_of(shipped, here, "node_types.cpu.memory") == "measured on n1, 2026-11-20"


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"measured": 3}', '{"measured": {"launcher": {"value": 1}}}']
)
def test_a_file_that_is_not_a_record_counts_as_none(loaded, here, tmp_path, content):
    (tmp_path / "fell.measured.json").write_text(content)
    assert read(loaded.path, here) == {}


def test_a_measured_limit_is_not_too_old(loaded, here, tmp_path):
    def stale():
        found = check_profile(str(tmp_path / "fell.yaml"), here, today=date(2026, 11, 21))
        return [p.message for p in found.problems if p.code == "DLR074"]

    assert "`partitions` (3 values) are from 2024-03" in stale()[0]
    done = verdicts_of(loaded, holds("partitions.gpu.max_walltime", "the scheduler"))
    record(done, print, here=here, today=DAY)
    assert "`partitions` (2 values) are from 2024-03" in stale()[0]
    rows = json.loads((tmp_path / "fell.measured.json").read_text())
    rows["measured"]["partitions.gpu.max_walltime"]["date"] = "2025-01-01"
    (tmp_path / "fell.measured.json").write_text(json.dumps(rows))
    assert "`partitions` (3 values)" in stale()[0]


def test_sections_are_summed_up_in_a_line(loaded, here):
    record(verdicts_of(loaded, holds("node_types.n.memory")), print, here=here, today=DAY)
    lines = list(proof_lines(proofs(loaded, here)))
    assert "  partitions.gpu  3 documented 2024-03, 1 documented 2026-02" in lines
    assert "  node_types.n    2 without a source, 1 measured on n1, 2026-11-20" in lines
    assert summary([]) == ""
