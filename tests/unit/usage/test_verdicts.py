"""Verdicts on runs made of numbers: each on what it is for, and none on a good run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from dlrun.model.units import Bytes, Duration
from dlrun.node.usage import cgroup, gpus, machine, ranks
from dlrun.usage.overview import nodes_that_differ, shared_file_systems
from dlrun.usage.rules import RULES
from dlrun.usage.samples import recordings
from dlrun.usage.summary import summarize
from dlrun.usage.verdicts import judge

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
    row |= {
        name: use.get(name, 0) * t for name in ("waited", "moved", "read", "written", "blocked", "preempted")
    }
    row["rss"] = use["rss"] + use.get("grows", 0) * t
    row["peak"] = row["rss"]
    return [row[name] for name in ranks.COLUMNS]


class Growing(float):
    """A value of a GPU that grows at this rate per second, instead of a constant one."""


def at(value: object, t: float) -> object:
    """A value after `t` seconds; half of it was there before the run."""
    return round(float(value) * (t + 150)) if isinstance(value, Growing) else value


def job(
    place: Path,
    uses: dict[str, dict],
    *,
    seconds: int = 300,
    network: dict | None = None,
    gpu: dict | None = None,
    node: dict | None = None,
    limit: float | None = None,
    shared: dict | None = None,
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
            if shared:
                sample["file_systems"] = {
                    fs: [1e9 + read * t, 1e9 + wrote * t] for fs, (read, wrote) in shared.items()
                }
            if gpu:
                sample |= {
                    "gpus": [[at(gpu.get(column), t) for column in gpus.COLUMNS]],
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


def test_on_a_busy_machine_the_rank_that_waits_longest_for_a_core_is_not_slow(tmp_path):
    uses = four(main=0.15, waited=0.56) | {"rank-0": GOOD | {"main": 0.15, "waited": 0.69}}
    assert verdicts(job(tmp_path, uses)) == {"disturbed": None}


def test_a_rank_on_whose_node_others_compute_is_slow_and_the_reason_is_named(tmp_path):
    uses = four(main=0.3, waited=0.05) | {"rank-2": GOOD | {"main": 0.3, "waited": 0.6}}
    job(tmp_path, uses)
    found = judge(plan(), summarize(recordings(tmp_path)), 300, ended=True)
    assert [one.rule for one in found] == ["slow-rank", "disturbed"]
    assert found[0].evidence.endswith("they wait for it; node n2, where it had no core 60% of the time")


LOADING = {"main": 0.2, "cpu": 2.2, "full": 2, "processes": 3, "busy_cores": 2}
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
    "gpu-errors": (four(main=0.9), {"gpu": {"busy": 95, "memory": 1e9, "ecc": Growing(0.01)}}, None),
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


def test_the_evidence_of_a_loader_names_the_cores_that_are_busy(tmp_path):
    found = judge(plan(), summarize(recordings(job(tmp_path, four(**LOADING)))), 300, ended=True)
    (evidence,) = [one.evidence for one in found]
    assert evidence == (
        "the program of each rank waits 80% of the time, while 2.0 of its 2 loading processes have work all the time; "
        "2.0 of the 4 cores of each rank are busy"
    )


def test_a_gpu_with_memory_errors_names_its_node_and_several_gpus_are_one_verdict(tmp_path):
    job(
        tmp_path,
        four(main=0.9),
        gpu={"busy": 95, "memory": 1e9, "ecc": Growing(0.01), "slowed": ["temperature"]},
    )
    both = judge(plan(), summarize(recordings(tmp_path)), 300, ended=True)
    assert [one.rule for one in both] == ["gpu-slowed", "gpu-errors"]
    assert both[1].evidence == "GPU 0 of n1: 2 uncorrected memory errors during the run; 1 other GPU as well"
    file = tmp_path / "usage" / "n1.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        for row in line.get("gpus", []) if "t" in line else []:
            row[gpus.COLUMNS.index("ecc")] = 3  # from before the run
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (one,) = [
        one
        for one in judge(plan(), summarize(recordings(tmp_path)), 300, ended=True)
        if one.rule == "gpu-errors"
    ]
    assert one.evidence.startswith("GPU 0 of n2: ")
    assert one.change == "resources.exclude: [n2], and report it to the centre"


def test_everything_that_is_recorded_of_a_rank_and_a_node_is_in_the_summary(tmp_path):
    more = {"threads": 9, "faults": 40, "busy_cores": 3, "preempted": 2}
    shared = {"/home": (1e6, 0.0), "lustre:scratch": (0.0, 2e6), "/idle": (0.0, 0.0)}
    use = summarize(recordings(job(tmp_path, four(**more), node={"elsewhere": 7}, shared=shared)))
    assert {(one.threads, one.faults, one.busy_cores, one.preempted) for one in use.ranks} == {(9, 40, 3, 2)}
    assert {one.elsewhere for one in use.nodes} == {7}
    both = [
        (one.name, one.read, one.written) for one in shared_file_systems(use)
    ]  # of two nodes, in this run alone
    assert both == [("/home", 600e6, 0.0), ("lustre:scratch", 0.0, 1200e6)]


def test_nodes_are_listed_where_they_differ(tmp_path):
    alike = summarize(recordings(job(tmp_path, four())))
    assert nodes_that_differ(alike) == []
    (tmp_path / "other").mkdir()
    uses = four() | {"rank-2": GOOD | {"rss": 9000 * MB}}
    first, second = nodes_that_differ(summarize(recordings(job(tmp_path / "other", uses))))
    assert (first.node, first.memory, second.memory) == ("n1", 4000 * MB, 11000 * MB)
    assert first.used == second.used == pytest.approx(7.2)


def test_a_node_whose_processes_wait_is_listed_with_what_they_wait_for(tmp_path):
    job(tmp_path, four(), node={"cpu_pressure": 0.1, "memory_pressure": 0.02, "io_pressure": 0.0})
    file = tmp_path / "usage" / "n2.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    column = machine.COLUMNS.index("memory_pressure")
    for line in lines[1:]:
        if "node" in line and isinstance(line["node"], list):
            line["node"][column] *= 10
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    first, second = nodes_that_differ(summarize(recordings(tmp_path)))
    assert (first.waits["memory"], second.waits["memory"]) == (pytest.approx(0.02), pytest.approx(0.2))
    assert first.waits["cores"] == second.waits["cores"] == pytest.approx(0.1)


def test_a_full_limit_is_named_with_the_time_that_it_costs(tmp_path):
    use = summarize(recordings(job(tmp_path, four(), limit=4.1e9, node={"memory_pressure": 0.3})))
    (one,) = judge(plan(), use, 300, ended=True)
    assert one.evidence.endswith(" in use on n1, where processes waited for memory 30% of the time")


def test_of_many_nodes_the_extremes_are_listed():
    nodes = tuple(
        SimpleNamespace(
            node=f"n{i}", job_peak=(5 + (i == 7)) * 1e9, job_limit=None, total=64e9, links=(), disk=0.0,
            cpu_pressure=None, memory_pressure=None, io=None,
        )
        for i in range(20)
    )  # fmt: skip
    assert [one.node for one in nodes_that_differ(SimpleNamespace(nodes=nodes, ranks=()))] == ["n0", "n7"]
