"""The page of `dlrun usage --page` on phones, in the dark and on paper, as a real browser lays it out."""

from __future__ import annotations

import html
import json
import re
import subprocess
from pathlib import Path

import pytest

from dlrun.usage.report_page import Bar, Curve, JobReport, LogEnd, Run, Section, Span, page
from tests.examples import cases
from tests.programs import need

pytestmark = pytest.mark.needs("browser")

POINTS = 100
PICTURE = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 1200 300' width='1200' height='300'>"
    "<rect width='1200' height='300' fill='#ffffff'/></svg>"
)
MEASURE = """<script>addEventListener('load', () => {
  const broken = [...document.querySelectorAll('td:not(.long), th, .lasted, dd .word')].filter(
    (cell) => { const range = document.createRange(); range.selectNodeContents(cell);
      const lines = [...range.getClientRects()].filter((r) => r.width && r.height > 9).map((r) => Math.round(r.bottom / 9));
      return new Set(lines).size > 1 && !cell.querySelector('.bar, svg'); }).map((cell) => cell.textContent);
  const cut = [...document.querySelectorAll('h1, h2, dd, dt, .name, .lasted, .key, .note, summary, footer, pre')].filter(
    (one) => one.getBoundingClientRect().right > innerWidth + 1).map((one) => one.textContent.slice(0, 40));
  const height = (name) => Math.max(0, ...[...document.querySelectorAll(name)].map((one) => one.getBoundingClientRect().height));
  parent.document.title = JSON.stringify({page: document.documentElement.scrollWidth, window: innerWidth, broken, cut,
    timeline: height('.scroll:has(> .time)'), rows: document.querySelectorAll('.time .track').length,
    ground: getComputedStyle(document.body).backgroundColor, text: getComputedStyle(document.body).color,
    picture: getComputedStyle(document.querySelector('.picture')).filter, bars: document.querySelectorAll('.bar').length})
})</script>"""


def report(points: int) -> JobReport:
    """A report with all parts of a page, of one run or a sweep."""
    runs = [
        Run(name=str(i) if points > 1 else "", spans=[Span(kind="queue", begin=i, end=i + 50),
            Span(kind="prepare", begin=i + 50, end=i + 60), Span(kind=("train", "bad")[i % 17 == 5], begin=i + 60, end=i + 3000)])
        for i in range(points)
    ]  # fmt: skip
    results = [
        [str(i), "0.1", "completed", "49m", Bar(share=i / points, text=f"{95 + i}.5 images/s")]
        for i in range(points)
    ]
    curve = Curve(points=[(i, i % 7) for i in range(300)])
    why = "NCCL bootstraps over this interface, which every node of the site has; without it, the first of the host is taken"
    return JobReport(
        title="resnet50-with-a-long-name-of-a-job · perlmutter · 31415926", state="completed", good=True,
        facts=[("site", "perlmutter (slurm), torch started by srun"), ("command", "python train.py " + "--option=value " * 20),
               ("job directory", "/pscratch/sd/u/user/" + "very-long-directory-name/" * 4)],
        counts=[("completed", "train", 94), ("failed", "bad", 6)] if points > 1 else [], cause=[], warnings=[], timeline=runs,
        pictures=[("", PICTURE)],
        sections=[
            Section(title="Results", header=("point", "lr", "state", "time", "throughput"), rows=results),
            Section(title="Usage", header=("rank", "node", "cores used", "over time", "memory peak", "read", "written"),
                    rows=[[f"rank-{i}", "nid001234", "31.20 of 32", curve, "12.4 GiB", "1.2 TB", "34 GB"] for i in range(16)]),
            Section(title="Variables", header=("variable", "value", "because"), rows=[["NCCL_SOCKET_IFNAME", "hsn0,hsn1", why]]),
        ],
        logs=[LogEnd(name="logs/rank-0.log", text="epoch 1 " + "x" * 400, before=9)], made="Written by dlrun.",
    )  # fmt: skip


def browser(place: Path, *options: str, width: int = 1000) -> str:
    command = [need("browser"), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={place / 'profile'}",
               f"--window-size={width},900", *options]  # fmt: skip
    return subprocess.run([*command, (place / "page.html").as_uri()], capture_output=True, text=True, check=True,
                          timeout=120).stdout  # fmt: skip


def measured(place: Path, points: int, width: int, *options: str) -> dict:
    """What a script finds that is added to the page, whose own rules allow none."""
    text = page(report(points))
    text = re.sub(r"<meta http-equiv=.Content-Security-Policy[^>]*>", "", text).replace(
        "</body>", MEASURE + "</body>"
    )
    # A frame, because the window of a browser is never narrower than 500 pixels.
    frame = f"<iframe style='width:{width}px;height:900px;border:0' srcdoc='{html.escape(text)}'></iframe>"
    (place / "page.html").write_text(f"<!doctype html><title></title><body style='margin:0'>{frame}", "utf-8")
    document = browser(place, "--dump-dom", *options, width=1200)
    return json.loads(
        re.search(r"<title>(.*?)</title>", document, re.DOTALL)[1]
        .replace("&quot;", '"')
        .replace("&amp;", "&")
    )


@pytest.mark.parametrize("points", [1, POINTS])
@pytest.mark.parametrize("width", cases([390, 500, 1100], quick=1))
def test_nothing_is_cut_and_no_cell_breaks_inside_a_word(tmp_path, points, width):
    found = measured(tmp_path, points, width)
    assert found["window"] == width
    assert found["page"] <= width, "the page itself scrolls sideways"
    assert found["cut"] == []
    assert found["broken"] == []


@pytest.mark.slow
def test_a_sweep_has_one_row_a_run_in_a_box_that_scrolls(tmp_path):
    found = measured(tmp_path, POINTS, 390)
    assert found["rows"] == POINTS
    assert found["timeline"] <= 500
    assert found["bars"] == POINTS


def brightness(text: str) -> float:
    red, green, blue = (int(part) for part in re.findall(r"\d+", text)[:3])
    return (red + green + blue) / 3


@pytest.mark.slow
@pytest.mark.parametrize("dark", cases([False, True], quick=1))
def test_colours_follow_the_reader_s(tmp_path, dark):
    found = measured(tmp_path, 1, 390, f"--blink-settings=preferredColorScheme={0 if dark else 1}")
    assert (brightness(found["ground"]) < 60) == dark
    assert (brightness(found["text"]) > 180) == dark
    assert ("invert" in found["picture"]) == dark


def pixels(place: Path, *options: str) -> list[float]:
    """The brightness of every 50th pixel of a picture of the page, from 0 to 1."""
    image = pytest.importorskip("matplotlib.image")
    browser(place, f"--screenshot={place / 'page.png'}", "--hide-scrollbars", *options, width=390)
    found = image.imread(place / "page.png")[:, :, :3].mean(axis=2)
    return [float(value) for value in found.flatten()[::50]]


@pytest.mark.slow
def test_a_picture_of_the_page_in_the_dark_is_dark_everywhere(tmp_path):
    (tmp_path / "page.html").write_text(page(report(1)), "utf-8")
    light, dark = (pixels(tmp_path, f"--blink-settings=preferredColorScheme={scheme}") for scheme in (1, 0))
    assert sum(value > 0.85 for value in light) > 0.7 * len(light)
    assert sum(value > 0.85 for value in dark) < 0.05 * len(dark), "the placement keeps a white ground"


@pytest.mark.slow
def test_paper_is_a4(tmp_path):
    (tmp_path / "page.html").write_text(page(report(1)), "utf-8")
    browser(tmp_path, f"--print-to-pdf={tmp_path / 'page.pdf'}")
    boxes = re.findall(rb"/MediaBox\s*\[\s*0 0 ([\d.]+) ([\d.]+)", (tmp_path / "page.pdf").read_bytes())
    assert boxes
    assert {(round(float(width)), round(float(height))) for width, height in boxes} == {(595, 842)}
    assert len(boxes) <= 4
