"""Recordings that are larger, stranger or more hostile than any sampler writes them."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from dlrun.usage import live, samples
from dlrun.usage.report_page import JobReport, Section, page
from dlrun.usage.summary import summarize
from tests.fuzz.recordings import recording

ODD = [
    10**400, 1e308, -1e308, -1, float("nan"), float("inf"), "9" * 5000, "²", "x", None, True, [], {}, [[]], "../../x", "\udc80",
]  # fmt: skip


def write(run: Path, records: list[dict], name: str = "n0") -> Path:
    (run / "usage").mkdir(exist_ok=True)
    file = run / "usage" / f"{name}.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in records))
    return file


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: repr(odd)[:12])
@pytest.mark.parametrize("line", [0, 1, 8, -1])
def test_a_value_that_cannot_be_costs_its_own_line_at_most(tmp_path, odd, line):
    whole = recording(0, ["rank-0", "rank-1"])
    for key in whole[line]:
        spoilt = [*whole]
        spoilt[line] = {**whole[line], key: odd}
        write(tmp_path, spoilt)
        use = summarize(samples.recordings(tmp_path))
        if line and (key, odd) != ("ranks", {}):  # which is what a node without any writes
            assert [len(one.cpu_curve) >= 7 for one in use.ranks] == [True, True], key
            assert all(0 <= one.cores <= 4 and one.used < 1e9 for one in use.ranks), key


@pytest.mark.parametrize("name", ["../../../etc/x", "**/**", "/etc/x", "a\0b", "", "x" * 300, "²", "rank 0"])
def test_a_rank_whose_name_would_be_a_path_is_none(tmp_path, name, monkeypatch):
    monkeypatch.setattr(live, "last_line", lambda run, rank: rank)  # which looks for a log of that name
    write(tmp_path, recording(0, ["rank-0", name]))
    write(tmp_path, recording(1, ["rank-2", "rank-3"]), "n1")
    assert [rank for one in samples.recordings(tmp_path) for rank in one.samples[-1].ranks] == [
        "rank-2",
        "rank-3",
    ]


@pytest.mark.parametrize(
    ("cores", "count"),
    [
        ("0-3,8", 5),
        ("0", 1),
        ("3-0", 0),
        ("0-999999999999", 0),
        ("9" * 5000, 0),
        ("²", 0),
        ("0-3,", 0),
        ("", 0),
    ],
)
def test_cores_of_a_rank(tmp_path, cores, count):
    records = recording(0, ["rank-0"])
    records[1]["cores"] = cores
    write(tmp_path, records)
    (rank,) = summarize(samples.recordings(tmp_path)).ranks
    assert rank.cores == count


def test_the_cores_on_which_a_rank_ran(tmp_path):
    """The last list of a rank counts, and a damaged one is empty."""
    records = recording(0, ["rank-0", "rank-1"])
    records[3]["ran"] = {"rank-0": "0", "rank-1": "4"}
    records[5]["ran"] = {"rank-0": "0-1", "rank-1": "4,../x"}
    write(tmp_path, records)
    first, second = summarize(samples.recordings(tmp_path)).ranks
    assert (first.ran_on, second.ran_on) == ("0-1", "")


def long(count: int) -> list[dict]:
    *start, first, _ = recording(0, ["rank-0"])[:4]
    return [*start, *({**first, "kind": "sample", "t": float(t)} for t in range(count))]


@pytest.mark.parametrize("files", [1, 4])
def test_of_large_files_samples_are_read_evenly(tmp_path, monkeypatch, files):
    """A month on a thousand nodes, or a file that a job has filled on purpose: what is held stays the same."""
    for number in range(files):
        size = write(tmp_path, long(4000), f"n{number}").stat().st_size
    monkeypatch.setattr(samples, "_ALL", size // 4)
    decoded = []
    before = json.loads
    monkeypatch.setattr(samples.json, "loads", lambda line: decoded.append(len(line)) or before(line))
    found = samples.recordings(tmp_path)
    assert sum(decoded) < 1.1 * size // 4
    for one in found:
        times = [sample.t for sample in one.samples]
        assert times[-1] == 3999
        assert 4000 / (4 * files + 1) <= len(times) <= 4000 / (4 * files) + 2
        steps = {b - a for a, b in pairwise(times)}
        assert max(steps) <= 4 * files + 1
    assert len(found) == files


def test_a_flood_of_starts_is_bounded(tmp_path, monkeypatch):
    start = recording(0, ["rank-0"])[0]
    write(tmp_path, [{**start, "id": str(number), "run": str(number)} for number in range(2000)])
    monkeypatch.setattr(samples, "_ALL", 1000)
    before, decoded = json.loads, []
    monkeypatch.setattr(samples.json, "loads", lambda line: decoded.append(line) or before(line))
    assert samples.recordings(tmp_path) == []
    assert sum(map(len, decoded)) < 40_000


@pytest.mark.slow
def test_of_the_latest_two_samples_are_kept(tmp_path):
    write(tmp_path, long(4000))
    (one,) = samples.recordings(tmp_path, latest=True)
    assert [sample.t for sample in one.samples] == [3998, 3999]
    assert one.cores == {"rank-0": "0-3"}


def test_what_others_wrote_is_text_on_a_page():
    hostile = "<script>x</script>\x1b[2J\udc80'\"&"
    shown = page(
        JobReport(
            title=hostile, state=hostile, good=None, facts=[(hostile, hostile)], cause=[hostile], warnings=[hostile],
            timeline=[], counts=[],
            pictures=[], sections=[Section(title=hostile, header=[hostile], rows=[[hostile]])],
            logs=[SimpleNamespace(name=hostile, text=hostile, before=0)], made=hostile,
        )
    ).encode()  # fmt: skip
    assert b"<script" not in shown
    assert b"\x1b" not in shown
    assert shown.count(b"&lt;script&gt;x&lt;/script&gt;\\x1b[2J\\udc80&#x27;&quot;&amp;") == 13
