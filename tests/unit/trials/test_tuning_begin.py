"""What a new tuning tries of a spec, on a machine with these allocators and this mode of huge pages."""

from __future__ import annotations

import pytest

from dlrun.errors import Invalid
from dlrun.trials.tune import begin
from dlrun.trials.tune.candidates import HUGE_PAGES, VALUES, Candidate

SITE = "name: here\nscheduler: {type: local}\nlauncher: {name: local}\n"
FILES = {"jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc.so.4"}


@pytest.fixture
def names(tmp_path, monkeypatch):
    """The candidates of a spec about memory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(begin, "find_library", FILES.get)
    (tmp_path / "site.yaml").write_text(SITE)

    def of(framework="torch", mode="always [madvise] never", more=""):
        mode_file = tmp_path / "enabled"
        mode_file.write_text(mode)
        monkeypatch.setattr(begin, "_HUGE_PAGES", mode_file)
        spec = tmp_path / "spec.yaml"
        spec.write_text(f"name: a\nframework: {framework}\ncommand: ['true']\nsite: ./site.yaml\n{more}")
        found = begin.begin(
            spec,
            sets=(),
            site=None,
            tries=["w=1,2"],
            only=False,
            directory=tmp_path / "out",
            length=1.0,
            repeat=2,
            notice=print,
        )
        prefix = "environment.variables."
        every = [one.name.removeprefix(prefix) for one in found.candidates if one.name.startswith(prefix)]
        return {
            name
            for name in every
            if name.partition("=")[0] in ("LD_PRELOAD", "GLIBC_TUNABLES", "THP_MEM_ALLOC_ENABLE")
        }

    return of


PRELOADED = {"LD_PRELOAD=libjemalloc.so.2", "LD_PRELOAD=libtcmalloc.so.4"}
HUGE = "GLIBC_TUNABLES=glibc.malloc.hugetlb=1"


def test_allocators_that_are_here_and_huge_pages(names):
    assert names() == {*PRELOADED, HUGE, "THP_MEM_ALLOC_ENABLE=1"}
    assert names(framework="h2o") == {*PRELOADED, HUGE}


def test_what_would_have_no_effect_or_is_the_users_is_not_tried(names):
    assert names(mode="[always] madvise never") == PRELOADED
    assert names(more="environment: {variables: {LD_PRELOAD: mine.so}}\n") == {HUGE, "THP_MEM_ALLOC_ENABLE=1"}


@pytest.mark.parametrize("framework", ["torch", "horovod", "tensorflow"])
def test_nothing_that_the_rules_try_changes_the_arithmetic(tmp_path, monkeypatch, framework):
    """Only where ranks run and how they communicate; another number of ranks comes with the batch that keeps the global one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site.yaml").write_text(SITE)
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        f"name: a\nframework: {framework}\ncommand: [train, '{{{{ batch_per_rank }}}}']\nsite: ./site.yaml\nbatch_per_rank: 32\n"
        "resources: {ranks_per_node: 2}\n"
    )
    found = begin.begin(
        spec, sets=(), site=None, tries=[], only=False, directory=tmp_path / "out", length=1.0, repeat=2, notice=print,
    )  # fmt: skip
    assert len(found.candidates) > 2
    for one in found.candidates:
        assert not one.parameters
        ranks = int(one.sets.get("resources.ranks_per_node", 2))
        assert ranks * int(one.sets.get("batch_per_rank", 32)) == 64, one.name
        rest = {*one.sets} - {"resources.ranks_per_node", "batch_per_rank"}
        allowed = {"placement.comm_cores", "placement.loader_cores", "placement.threads", "placement.smt"}
        variables = {*VALUES, "LD_PRELOAD", *(name for name, *_ in HUGE_PAGES)}
        assert rest <= allowed | {f"environment.variables.{name}" for name in variables}, one.name


def test_a_trial_of_points_on_several_nodes_is_one_of_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site.yaml").write_text("name: s\nscheduler: {type: slurm}\nlauncher: {name: srun}\n")
    spec = tmp_path / "spec.yaml"
    spec.write_text("name: a\nsite: ./site.yaml\ncommand: ['true']\nsweep: {nodes: 4, nodes_per_point: 2}\n")
    plan = begin.plan_of(Candidate(name="a", sets={}, parameters={}, because=""), spec, (), None)
    assert plan.pool is not None
    assert (plan.pool.nodes, plan.pool.nodes_per_point, plan.request.nodes, len(plan.points)) == (4, 2, 2, 1)
    assert "--nodes=4" in {one.text for one in plan.directives}


def test_a_pool_has_a_place_for_each_group_of_nodes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site.yaml").write_text("name: s\nscheduler: {type: slurm}\nlauncher: {name: srun}\n")
    spec = tmp_path / "spec.yaml"
    spec.write_text("name: a\nsite: ./site.yaml\ncommand: ['true']\nresources: {nodes: 2}\n")
    notes = []
    how = {"notice": notes.append, "sets": (), "site": None, "tries": ["placement.threads=1", "resources.nodes=4"], "only": True,
           "directory": tmp_path / "out", "length": 60.0, "repeat": 4}  # fmt: skip
    found = begin.begin(spec, pool=8, **how)
    assert (found.nodes, found.per_node, found.wide) == (8, 1, 2)
    assert found.places == ("0,1 0", "2,3 0", "4,5 0", "6,7 0")
    assert found.hours(3600) == 2
    assert [one.name for one in found.candidates] == ["as planned", "placement.threads=1"]
    assert "resources.nodes" in " ".join(notes)
    for few in (1, 3):
        with pytest.raises(
            Invalid, match=f"a trial has 2 nodes, and `--pool {few}` is not a multiple of that"
        ):
            begin.begin(spec, pool=few, **how)
    one = begin.begin(spec, **how)
    assert (one.nodes, one.per_node, one.places) == (2, 0, ("",))


def test_why_nothing_can_be_tried_is_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site.yaml").write_text("name: s\nscheduler: {type: slurm}\nlauncher: {name: srun}\n")
    spec = tmp_path / "spec.yaml"
    spec.write_text("name: a\nsite: ./site.yaml\ncommand: ['true']\n")
    notes = []
    with pytest.raises(Invalid, match="there is nothing to try"):
        begin.begin(
            spec, sets=(), site=None, tries=["resources.nodes=4"], only=True, directory=tmp_path / "out", length=1.0,
            repeat=2, notice=notes.append,
        )  # fmt: skip
    (note,) = notes
    assert note.startswith("not tried: resources.nodes=4: it changes the number of nodes")
