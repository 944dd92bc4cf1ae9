"""A scaling table in its forms: every one has the same numbers."""

from __future__ import annotations

import csv
import io
import re
import sys

import pytest

from dlrun.errors import Invalid
from dlrun.trials.scale import texts
from dlrun.trials.scale.estimate import estimate
from dlrun.trials.scale.picture import draw
from dlrun.trials.scale.table import Run, tabulate


def table(bound=0.8):
    sizes = {1: (100.0, 101.0, 102.0), 2: (190.0, 195.0, 198.0), 8: (520.0, 560.0, 561.0)}
    return tabulate(
        (
            Run(nodes=n, ranks=4 * n, throughput=value, elapsed=4000 / n, unit="images/s")
            for n, values in sizes.items()
            for value in values
        ),
        bound=bound,
    )


def test_markdown():
    assert texts.markdown(table()).splitlines() == [
        "| nodes | ranks | runs | minimum | median (images/s) | maximum | speed-up | efficiency | time to train | node-hours |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| 1 | 4 | 3 | 100 | 101 | 102 | 1.00 | 100.0% | 1:06:40 | 1.111 |",
        "| 2 | 8 | 3 | 190 | 195 | 198 | 1.93 | 96.5% | 33:20 | 1.111 |",
        "| 8 | 32 | 3 | 520 | 560 | 561 | 5.54 | 69.3% | 8:20 | 1.111 |",
        "",
        "efficiency falls under 80 % at 8 nodes (32 ranks) (69.3 %)",
    ]


def test_latex_and_what_means_something_there():
    text = texts.latex(table(), r"50% of {a}_b \ ~ ^ & #1")
    assert r"\caption{50\% of \{a\}\_b \textbackslash{} \textasciitilde{} \textasciicircum{} \& \#1}" in text
    assert r"2 & 8 & 3 & 190 & 195 & 198 & 1.93 & 96.5\% & 33:20 & 1.111 \\" in text
    assert text.count(r"\\") == 4


def test_csv_has_every_digit():
    rows = list(csv.DictReader(io.StringIO(texts.comma_separated(table()))))
    assert [float(row["efficiency"]) for row in rows] == [row.efficiency for row in table().rows]
    assert {row["unit"] for row in rows} == {"images/s"}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (0.0, "0 s"), (42.4, "42.4 s"), (99.96, "100 s"), (205, "3:25"), (7405, "2:03:25")],
)
def test_times(seconds, text):
    assert texts.clock(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.0, "0"), (0.000123456, "0.0001235"), (99.999, "100"), (123456.7, "123457")],
)
def test_numbers(value, text):
    assert texts.number(value) == text


def test_verdicts():
    assert texts.verdict(table(0.5)) == "efficiency is at least 50 % up to 8 nodes (32 ranks)"
    assert texts.verdict(tabulate([])) == ""


def words(svg: bytes) -> list[str]:
    return [
        re.sub(r"<[^>]*>", "", found)
        for found in re.findall(r"<text[^>]*>.*?</text>", svg.decode(), re.DOTALL)
    ]


@pytest.mark.slow
def test_the_picture_has_the_table_s_numbers_and_keeps_estimates_apart():
    pytest.importorskip("matplotlib", reason="matplotlib, which draws pictures, is not installed")
    whole = table()
    shown = words(draw(whole, "net: weak scaling", "svg"))
    for row in texts.cells(whole):
        assert row[4] in shown
        assert row[7].removesuffix("%") in shown
    assert {"net: weak scaling", "ideal", "bound 80 %", "throughput (images/s)", "4", "8", "32"} <= set(shown)
    assert "estimated" not in shown
    assert "estimated" in words(draw(whole, "net", "svg", estimate(whole, [16], "weak")))
    assert draw(whole, "net", "svg") == draw(whole, "net", "svg")
    assert draw(whole, "net", "png").startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_curve_that_falls_has_an_axis_to_be_read_from():
    pytest.importorskip("matplotlib", reason="matplotlib, which draws pictures, is not installed")
    speeds = {1: 800.0, 2: 500.0, 4: 300.0}
    runs = [Run(nodes=n, ranks=n, throughput=v, elapsed=1.0, unit="images/s") for n, v in speeds.items()]
    assert {"500", "1000", "2000"} <= set(words(draw(tabulate(runs), "net", "svg"))), "round numbers"


def test_without_matplotlib_there_is_one_clear_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(Invalid, match="matplotlib, which draws pictures, is not installed") as raised:
        draw(table(), "net", "svg")
    assert "pip install matplotlib" in str(raised.value.help)
