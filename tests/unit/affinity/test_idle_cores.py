"""What the default placement leaves idle has a reason in the plan; `python -m tests.oracles.idle_cores` tries all sites."""

from __future__ import annotations

import pytest

from dlrun.affinity.command import command as tune_affinity
from dlrun.resources import directory
from tests.examples import cases
from tests.making import plan_of
from tests.oracles.idle_cores import counts, nodes, placed

SITES = [
    path.stem
    for path in sorted(directory("site-configs").glob("*.yaml"))
    if "topology" in path.read_text("utf-8")
]


@pytest.mark.parametrize("site", cases(SITES, quick=12))
def test_idle_cores_have_a_reason(site):
    for name, node in nodes([site]):
        wanted = counts(node)
        most = max(ranks for ranks, _ in wanted)
        wanted = [
            (ranks, gpus)
            for ranks, gpus in wanted
            if gpus or ranks in {1, 3, 5, 7, most // 2 + 1, most - 1, most}
        ]
        found = [placed(name, node, *pair) for pair in wanted]
        assert [one for one in found if one and one.fault] == []


@pytest.mark.parametrize(
    ("name", "ranks", "idle", "reason"),
    [
        ("aurora/pvc", 12, 6, "all ranks have 7, as NUMA node 0 has 45 for 6 ranks"),
        ("aurora/pvc", 7, 41, "all ranks have 7, as NUMA node 0 has 45 for 6 ranks; with `--locality balance`"),
        ("dgx-h100/dgx-h100", 5, 42, "all ranks have 14, as NUMA node 0 has 56 for 4 ranks; with"),
        ("delta/a100x8", 8, 64, "no GPU of the ranks is next to NUMA node 0, 2, 4, 6; with `--locality balance`"),
    ],
)  # fmt: skip
def test_the_reason_is_the_place_whose_ranks_cannot_have_more(name, ranks, idle, reason):
    node = dict(nodes([name.partition("/")[0]]))[name]
    found = placed(name, node, ranks, len(node.gpus) // ranks)
    assert found.idle == idle
    (text,) = found.warnings
    assert reason in text


SITE = """\
name: half
scheduler: {type: slurm, exclusive: true}
launcher: {name: srun}
gpu_binding: {policy: visible}
node_types:
  one:
    topology: {packages: 1, cores: 32, numa_per_package: 4, gpus: {count: 2, kind: cuda, numa: [1, 3]}}
"""


@pytest.mark.parametrize(
    ("locality", "cores", "says"),
    [
        (
            "auto",
            8,
            ["16 of 32 usable cores stay idle (50 %): no GPU of the ranks is next to NUMA node 0, 2; with"],
        ),
        ("balance", 16, []),
    ],
)
def test_the_plan_and_the_table_say_what_is_idle_and_why(tmp_path, capsys, locality, cores, says):
    """Half of the node is, since NUMA nodes without a GPU are further from it; `locality: balance` takes it, too."""
    resources = "{nodes: 1, ranks_per_node: 2, gpus_per_node: 2, walltime: 5m}"
    plan = plan_of(
        tmp_path, f"framework: torch\nresources: {resources}\nplacement: {{locality: {locality}}}\n", SITE
    )
    assert [len(rank.cores) for rank in plan.binding.placement.ranks] == [cores] * 2
    found = [text for text in plan.warnings if "idle" in text]
    assert [text[: len(wanted)] for text, wanted in zip(found, says, strict=True)] == says
    argv = ["--site", str(tmp_path / "site.yaml"), "--ranks-per-node", "2", "--locality", locality]
    tune_affinity(argv, standalone_mode=False, obj={"color": "never"})
    shown = [line for line in capsys.readouterr().err.splitlines() if "idle" in line]
    assert [
        line.removeprefix("warning: ")[: len(wanted)] for line, wanted in zip(shown, says, strict=True)
    ] == says
