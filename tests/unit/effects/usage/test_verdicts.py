"""Verdicts on runs made of numbers: each on what it is for, and none on a good run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from dlrun.effects.usage.rules import RULES
from dlrun.effects.usage.samples import recordings
from dlrun.effects.usage.summary import summarize
from dlrun.effects.usage.verdicts import judge
from dlrun.model.units import Bytes, Duration
from dlrun.node.usage import cgroup, gpus, machine, ranks

MB = 1 << 20
GOOD = {"main": 3.6, "rss": 2000 * MB, "processes": 1, "threads": 4}


def plan(**request):
    """As much of a plan as the rules read: four cores for each of two ranks on each of two nodes."""
    asked = {
        "memory_per_node": None,
        "walltime": None,
        "cpus_per_rank": 4,
        "exclusive": True,
        "nodes": 2,
        **request,
    }
    bound = SimpleNamespace(mode="plan", because="the plan binds them")
    return SimpleNamespace(request=SimpleNamespace(**asked), binding=bound)


def rank_row(t: float, use: dict) -> list:
    """Columns of a rank after `t` seconds; `main` and others ending in a rate grow, the rest is as given."""
    rates = {"cpu": use.get("cpu", use["main"]), "main": use["main"]}
    row = dict.fromkeys(ranks.COLUMNS, 0) | {k: v for k, v in use.items() if k in ranks.COLUMNS}
    row |= {name: rate * t for name, rate in rates.items()}
    row |= {name: use.get(name, 0) * t for name in ("waited", "moved", "read", "written", "blocked")}
    row["rss"] = use["rss"] + use.get("grows", 0) * t
    row["peak"] = row["rss"]
    return [row[name] for name in ranks.COLUMNS]


def job(
    place: Path,
    uses: dict[str, dict],
    *,
    seconds: int = 300,
    network: dict | None = None,
    gpu: dict | None = None,
    node: dict | None = None,
    limit: float | None = None,
) -> Path:
    """The recordings of two nodes with the ranks of `uses`; `network` are bytes a second of interfaces, and their Mbit/s."""
    (place / "usage").mkdir()
    for number, name in enumerate(("n1", "n2")):
        mine = {rank: use for rank, use in uses.items() if int(rank.rpartition("-")[2]) // 2 == number}
        described = (
            [{"name": "H100", "uuid": "GPU-1", "memory": 80e9, "clock": 1980, "mig": False}] if gpu else []
        )
        start = {
            "kind": "start", "version": 1, "id": "1", "run": "7.0", "node": name, "node_rank": number, "time": 1e9,
            "cores": "0-7", "memory": 64e9, "gpus": described,
            "columns": {"rank": ranks.COLUMNS, "node": machine.COLUMNS, "job": cgroup.COLUMNS, "gpu": gpus.COLUMNS},
        }  # fmt: skip
        lines = [start]
        lines += [
            {
                "kind": "rank",
                "id": "1",
                "rank": rank,
                "pid": 9,
                "cores": "0-3" if int(rank[-1]) % 2 == 0 else "4-7",
            }
            for rank in mine
        ]
        for t in range(0, seconds + 1, 5):
            row = dict.fromkeys(machine.COLUMNS, 0) | {key: value * t for key, value in (node or {}).items()}
            sample = {
                "kind": "sample" if t < seconds else "end", "id": "1", "t": t, "node": [row[c] for c in machine.COLUMNS],
                "ranks": {rank: rank_row(t, use) for rank, use in mine.items()},
                "network": {i: [rate * t, 0, speed] for i, (rate, speed) in (network or {}).items()},
                "job": [None, None, None, limit],
            }  # fmt: skip
            if gpu:
                sample |= {
                    "gpus": [[gpu.get(column) for column in gpus.COLUMNS]],
                    "on": [[f"rank-{2 * number}"]],
                }
            lines.append(sample)
        (place / "usage" / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return place


def verdicts(place: Path, of=None, elapsed: float = 300, *, ended: bool = True) -> dict[str, str | None]:
    found = judge(of or plan(), summarize(recordings(place)), elapsed, ended=ended)
    assert {one.rule for one in found} <= set(RULES)
    return {one.rule: one.change for one in found}


def four(**different) -> dict[str, dict]:
    """Four ranks of a good run, with what differs in all of them."""
    return {f"rank-{number}": GOOD | different for number in range(4)}


def test_a_good_run_has_none(tmp_path):
    asked = plan(memory_per_node=Bytes.parse("6GiB"), walltime=Duration(400))
    assert verdicts(job(tmp_path, four(), network={"eth0": (2e8, 100000)}), asked) == {}


def test_a_good_run_on_gpus_has_none(tmp_path):
    gpu = {"busy": 94, "memory": 60e9, "slowed": [], "clock": 1980}
    assert verdicts(job(tmp_path, four(main=0.9), gpu=gpu)) == {}


@pytest.mark.parametrize(
    "different",
    [{"main": 0.3}, {"main": 0.2, "cpu": 2.2, "full": 2, "processes": 3}, {"main": 0.2, "blocked": 0.15}],
    ids=["network", "loaders", "storage"],
)
def test_programs_that_wait_for_busy_gpus_are_good(tmp_path, different):
    """With a steady transfer, full loading processes, or storage beside it; and one that has more to do than its peers."""
    gpu = {"busy": 94, "memory": 60e9, "slowed": [], "clock": 1980}
    uses = four(**different) | {"rank-0": GOOD | different | {"main": 0.4}}
    assert verdicts(job(tmp_path, uses, gpu=gpu, network={"eth0": (2e8, 100000)})) == {}


def test_a_program_that_gets_no_core_is_not_idle(tmp_path):
    assert verdicts(job(tmp_path, four(main=0.01, waited=0.97))) == {"disturbed": None}


LOADING = {"main": 0.2, "cpu": 2.2, "full": 2, "processes": 3}
CASES = {
    "idle": (four(main=0.01), {}, None),
    "slow-rank": (
        four(main=0.5) | {"rank-2": GOOD | {"main": 0.95}}, {}, "resources.exclude: [n2], if another run on it is slow as well",
    ),
    "memory-grows": (four(grows=20 * MB), {}, None),
    "loader-bound": (
        four(**LOADING), {},
        "placement.loader_cores: 3, and as many workers in the program's DataLoader",
    ),
    "network-bound": (four(main=0.3), {"network": {"eth0": (1.1e9, 10000)}}, None),
    "disk-bound": (four(main=0.2, blocked=0.15, written=5e7), {"node": {"io_pressure": 0.6}}, None),
    "crowded": (four(main=4.0, waited=0.3), {}, "resources.cpus_per_rank: 8, or fewer threads"),
    "disturbed": (four(main=1.0, waited=0.3), {}, None),
    "fabric-unused": (
        four(), {"network": {"eth0": (5e8, 10000), "mlx5_0:1": (10.0, 200000)}},
        "fabric_check: warn, which names what the library selected",
    ),
    "gpu-idle": (four(main=0.9), {"gpu": {"busy": 12, "memory": 1e9}}, None),
    "gpu-slowed": (four(main=0.9), {"gpu": {"busy": 95, "memory": 1e9, "slowed": ["temperature"], "clock": 900}}, None),
    "memory-limit": (four(), {"limit": 4.1e9}, "resources.memory_per_node: 6G"),
}  # fmt: skip


@pytest.mark.parametrize("rule", CASES)
def test_each_has_its_verdict_and_no_other(tmp_path, rule):
    uses, more, change = CASES[rule]
    assert verdicts(job(tmp_path, uses, **more)) == {rule: change}


def test_what_was_asked_for_and_not_used(tmp_path):
    asked = plan(
        memory_per_node=Bytes.parse("200GB"), walltime=Duration(24 * 3600), cpus_per_rank=32, exclusive=False
    )
    found = verdicts(job(tmp_path, four()), asked, elapsed=3 * 3600)
    assert found == {
        "memory-requested": "resources.memory_per_node: 5G",
        "walltime": "resources.walltime: 3h50m",
        "cores-requested": "resources.cpus_per_rank: 5",
    }
    running = verdicts(tmp_path, asked, elapsed=3 * 3600, ended=False)
    assert "walltime" not in running
    assert "memory-requested" not in running


def test_unbound_ranks_that_move(tmp_path):
    free = plan()
    free.binding.mode, free.binding.because = "none", "the spec asks for it"
    assert verdicts(job(tmp_path, four(moved=40)), free) == {"migrates": "placement.bind: plan"}


def test_a_run_of_a_few_seconds_is_not_judged(tmp_path):
    assert verdicts(job(tmp_path, four(main=0.01), seconds=10), elapsed=10) == {}


def test_cut_and_foreign_lines_cost_their_numbers_alone(tmp_path):
    job(tmp_path, four(main=0.01))
    file = tmp_path / "usage" / "n1.jsonl"
    lines = file.read_text().splitlines()
    spoilt = [
        '{"kind":"sample","id":"1","t":NaN}',
        "\0\0\0",
        '{"kind":"sample","id":"1","t":6,"ranks":[]}',
        '{"kind":"start"}',
        "[1]",
    ]
    file.write_text("\n".join([*spoilt, *lines[:9], *spoilt, *lines[9:-1], lines[-1][:40]]))
    (tmp_path / "usage" / "n3.jsonl").write_bytes(b"\xff" * 100)
    (tmp_path / "usage" / "n4.jsonl").mkdir()
    first, second = recordings(tmp_path)
    assert (first.node, first.complete, second.complete) == ("n1", False, True)
    assert len(first.samples) == len(second.samples) - 1
    assert verdicts(tmp_path) == {"idle": None}


def test_only_the_last_start_of_a_run_counts(tmp_path):
    job(tmp_path, four(main=0.01))
    file = tmp_path / "usage" / "n1.jsonl"
    file.write_text(
        file.read_text()
        + file.read_text()
        .replace('"7.0"', '"7.1"')
        .replace("1000000000.0", "1000009999.0")
        .replace('"id": "1"', '"id": "2"')
    )
    assert [one.run for one in recordings(tmp_path)] == ["7.1"]


def test_clocks_that_differ_do_not_matter(tmp_path):
    job(tmp_path, four(main=0.5) | {"rank-2": GOOD | {"main": 0.95}})
    file = tmp_path / "usage" / "n2.jsonl"
    file.write_text(file.read_text().replace("1000000000.0", "1000007200.0"))
    assert "slow-rank" in verdicts(tmp_path)


def test_thresholds_are_those_of_the_rules(tmp_path, monkeypatch):
    job(tmp_path, four(main=0.01))
    monkeypatch.setitem(RULES, "idle", replace(RULES["idle"], threshold=1.5))
    assert verdicts(tmp_path) == {}
