"""The keys of `placement:` are the options of `tune-affinity`, and a plan obeys them."""

from __future__ import annotations

import click
import pytest

from dlrun.affinity.actions import KEYS
from dlrun.affinity.command import command
from dlrun.cli import main as cli
from dlrun.config.hints import keys
from dlrun.model.placement import PlacementOptions
from dlrun.model.problem import InvalidFile
from tests.making import decided, plan_of

SITE = """\
name: crag
scheduler: {{type: slurm, version: "24.05", exclusive: {exclusive}}}
launcher: {{name: srun}}
partitions: {{all: {{node_type: node, default: true}}}}
node_types:
  node: {{topology: {topology}}}
"""
TWO = "{packages: 2, cores: 8, smt: 2, l3_per_package: 2}"
ONE_SIDED = "{packages: 2, cores: 8, gpus: {count: 2, numa: [0, 0]}}"


def plan(tmp_path, placement, *, ranks=2, topology=TWO, exclusive="true"):
    spec = f"framework: mpi\nresources: {{ranks_per_node: {ranks}}}\nplacement: {placement}"
    return plan_of(tmp_path, spec, SITE.format(topology=topology, exclusive=exclusive))


def ranks(plan):
    return plan.binding.placement.ranks


def problem(tmp_path, placement, **more):
    with pytest.raises(InvalidFile) as caught:
        plan(tmp_path, placement, **more)
    (only,) = caught.value.problems
    return only


def test_every_key_of_a_placement_is_an_option_and_every_option_a_key():
    known = keys(PlacementOptions)
    options = {option.name: option for option in command.params if isinstance(option, click.Option)}
    assert set(KEYS) | {"bind", "threads", "comm_cores"} == set(known)
    for name in (*KEYS, "comm_cores"):
        kind = options[name].type
        if isinstance(kind, click.Choice):
            assert set(kind.choices) == set(known[name].hint.words), name
        assert f"--{name.replace('_', '-')}" in options[name].opts


def test_reserved_cores_are_left_alone(tmp_path):
    assert ranks(plan(tmp_path, "{}"))[0].cores == tuple(range(8))
    assert ranks(plan(tmp_path, "{reserve: '0,8-9'}"))[0].cores == (1, 2, 3, 4, 5, 6)
    assert ranks(plan(tmp_path, "{reserve: first-core-per-l3}"))[0].cores == (1, 2, 3, 5, 6, 7)
    assert ranks(plan(tmp_path, "{reserve: 2-per-node}"))[1].cores == tuple(range(9, 16))


def test_gpu_ranks_stay_near_or_use_all_cores(tmp_path):
    near = plan(tmp_path, "{}", topology=ONE_SIDED)
    assert [rank.cores for rank in ranks(near)] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    wide = plan(tmp_path, "{locality: balance}", topology=ONE_SIDED)
    assert [len(rank.cores) for rank in ranks(wide)] == [8, 8]


def test_a_rank_keeps_to_one_cache_where_that_is_asked(tmp_path):
    caches = "{packages: 1, cores: 12, l3_per_package: 3}"
    assert ranks(plan(tmp_path, "{}", topology=caches))[0].cores == (0, 1, 2, 3, 4, 5)
    strict = ranks(plan(tmp_path, "{l3_borders: strict}", topology=caches))
    assert [rank.cores for rank in strict] == [(0, 1, 2, 3), (4, 5, 6, 7)]


def test_ranks_share_cores_only_where_that_is_asked(tmp_path):
    assert plan(tmp_path, "{}", ranks=32).binding.mode == "none"
    shared = plan(tmp_path, "{oversubscribe: true}", ranks=32)
    assert (shared.binding.mode, len(ranks(shared)), decided(shared, "placement.threads")[0]) == (
        "plan",
        32,
        1,
    )


@pytest.mark.parametrize(
    ("placement", "says"),
    [
        ("{reserve: some}", "a CPU list such as `0,64-71`, `first-core-per-l3`, `N-per-node` or `none`"),
        ("{reserve: 9-1}", "reserve"),
        ("{reserve: '0-15'}", "no usable core is left"),
        ("{reserve: '99'}", "CPU 99"),
        ("{locality: near}", "`auto`, `strict`, or `balance`"),
        ("{l3_borders: none}", "`free` or `strict`"),
        ("{oversubscribe: 2}", "`true` or `false`"),
    ],
)
def test_what_does_not_fit_is_refused_where_it_is_written(tmp_path, placement, says):
    found = problem(tmp_path, placement)
    assert says in f"{found.message} {found.help}"
    assert found.origin.line == 4


@pytest.mark.parametrize("more", [{"exclusive": "false"}, {"topology": "null"}])
def test_a_key_that_nothing_obeys_is_said(tmp_path, more):
    (warning,) = (
        w for w in plan(tmp_path, "{reserve: 1-per-node, smt: all}", **more).warnings if "DLR024" in w
    )
    assert "`placement.smt` and `placement.reserve` have no effect" in warning
    (warning,) = (w for w in plan(tmp_path, "{bind: none, locality: balance}").warnings if "DLR024" in w)
    assert "`placement.locality` has no effect: `placement.bind` is `none`" in warning


def test_options_and_keys_give_one_placement(tmp_path, monkeypatch, capsys):
    plan(
        tmp_path,
        "{reserve: 1-per-node, l3_borders: strict, smt: all, comm_cores: 1, memory: strict}",
        ranks=4,
    )
    monkeypatch.chdir(tmp_path)

    def said(*words):
        assert cli.run(["tune-affinity", *words, "--format", "json"]) == 0
        return capsys.readouterr().out.partition('"name"')[2].partition("\n")[2]

    flags = [
        "--reserve",
        "1-per-node",
        "--l3-borders",
        "strict",
        "--smt",
        "all",
        "--comm-cores",
        "1",
        "--memory",
        "strict",
    ]
    of_site = said("--site", "./site.yaml", "--ranks-per-node", "4", "--gpus-per-rank", "0", *flags)
    assert said("spec.yaml") == of_site
    assert said("spec.yaml", "--reserve", "none") != of_site, "an option beats the spec"


def test_explain_says_where_a_key_was_written(tmp_path, monkeypatch, capsys):
    plan(tmp_path, "{reserve: 1-per-node}")
    monkeypatch.chdir(tmp_path)
    assert cli.run(["explain", "placement.reserve", "spec.yaml"]) == 0
    shown = capsys.readouterr().out
    assert "1-per-node" in shown
    assert "spec.yaml:4:" in shown


def test_explain_describes_a_key_that_is_not_set(tmp_path, monkeypatch, capsys):
    plan(tmp_path, "{}")
    monkeypatch.chdir(tmp_path)
    assert cli.run(["explain", "placement.locality", "spec.yaml"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("placement.locality = auto\n")
    assert "not set; auto: ranks stay within the NUMA nodes of their GPUs" in shown
    assert cli.run(["explain", "placement.localty", "spec.yaml"]) == 2
    assert "this plan has no `placement.localty`" in capsys.readouterr().err
