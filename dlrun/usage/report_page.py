"""A job's page: one self-contained HTML file without scripts and external resources, for a colleague or a help desk."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from dlrun.model.record import record
from dlrun.model.text import LINES, visible
from dlrun.model.units import Duration

_TALL = 30
"""Rows from which a table scrolls by itself."""
_CLOSED = 200
"""Rows from which a table is closed at first."""


@record(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """The last lines of a log, and the number of bytes before them."""

    name: str
    text: str
    before: int


@record(frozen=True, slots=True, kw_only=True)
class Section:
    """A table with its heading; `note` is what it leaves out."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""


@record(frozen=True, slots=True, kw_only=True)
class JobReport:
    """The contents of the page. `state` is the job's state, `good` is True for success and None while it is open.

    `cause` are the lines of `dlrun why`, `counts` the number of runs in each state of a sweep with its colour, `pictures` are
    (role or "", SVG document of a node with its ranks).
    """

    title: str
    state: str
    good: bool | None
    facts: Sequence[tuple[str, str]]
    counts: Sequence[tuple[str, str, int]]
    cause: Sequence[str]
    warnings: Sequence[str]
    timeline: Sequence[Run]
    pictures: Sequence[tuple[str, str]]
    sections: Sequence[Section]
    logs: Sequence[LogEnd]
    made: str


def _unbroken(value: str) -> str:
    """A text of a page whose options stay whole: a browser breaks lines after a `-`."""
    return re.sub(r"(?<!\S)-\S+", r'<span class="word">\g<0></span>', value)


def page(report: JobReport) -> str:
    """The whole page."""
    return "".join(f"{line}\n" for line in _lines(report))


def _lines(report: JobReport) -> Iterator[str]:
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
    # Logs are untrusted text: should an escape be missed, no script of theirs may run.
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    yield f"<title>{text(report.title)}</title><style>{STYLE}</style></head><body><main>"
    kind = {True: " good", False: " bad", None: ""}[report.good]
    yield f'<h1>{text(report.title)} <span class="state{kind}">{text(report.state)}</span></h1>'
    facts = "".join(f"<dt>{text(name)}</dt><dd>{_unbroken(text(value))}</dd>" for name, value in report.facts)
    yield f"<dl>{facts}</dl>"
    yield from _counts(report.counts)
    if report.cause:
        yield f"<h2>Why</h2><pre>{text(chr(10).join(report.cause))}</pre>"
    if report.timeline:
        yield "<h2>Timeline</h2>"
        yield from timeline(report.timeline)
    for role, picture in report.pictures:
        of = f" of {text(role)}" if role else ""
        yield f'<h2>Placement{of}</h2><div class="picture scroll">{picture}</div>'
    for section in report.sections:
        yield from _table(section)
    if report.warnings:
        yield f"<h2>Warnings</h2><ul>{''.join(f'<li>{text(warning)}</li>' for warning in report.warnings)}</ul>"
    if report.logs:
        yield "<h2>Logs</h2>"
    for log in report.logs:
        more = f" (the last lines; {log.before:,} bytes before them)" if log.before else ""
        yield f"<details open><summary>{text(log.name)}{more}</summary><pre>{text(log.text)}</pre></details>"
    yield f"<footer>{text(report.made)}</footer></main></body></html>"


def _counts(counts: Sequence[tuple[str, str, int]]) -> Iterator[str]:
    """The runs of a sweep by state, as one bar with its key."""
    if not counts:
        return
    total = sum(number for _, _, number in counts)
    parts = "".join(
        f"<i class='{kind}' style='width:{100 * number / total:.2f}%'></i>" for _, kind, number in counts
    )
    keys = "".join(
        f"<span><i class='{kind}'></i>{number} {text(state)}</span>" for state, kind, number in counts
    )
    yield f"<div class='parts'>{parts}</div><div class='key'>{keys}</div>"


def _table(section: Section) -> Iterator[str]:
    if not section.rows:
        return
    yield f"<h2>{text(section.title)}</h2>"
    closed = len(section.rows) > _CLOSED
    if section.note:
        yield f"<p class='note'>{text(section.note)}</p>"
    if closed:
        yield f"<details><summary>{len(section.rows):,} rows</summary>"
    tall = " tall" if len(section.rows) > _TALL else ""
    header = "".join(cell(name, "th") for name in section.header)
    yield f'<div class="scroll{tall}"><table><thead><tr>{header}</tr></thead><tbody>'
    for row in section.rows:
        yield f"<tr>{''.join(cell(content, 'td') for content in row)}</tr>"
    yield "</tbody></table></div>" + ("</details>" if closed else "")


# Bars, curves and the timeline of a job's page, as CSS boxes and inline SVG: they follow the page's width and colours.

_LONG = 36
"""Characters from which a text of a table may break into lines."""
_MANY = 12
"""Runs from which the rows of the timeline are narrow."""
_POINTS = 60
"""Maximum points of a curve; longer ones are averaged."""
KINDS = {"queue": "queue", "prepare": "set-up and staging", "train": "training", "bad": "failed"}
"""CSS class of a phase -> its name in the key."""


@record(frozen=True, slots=True, kw_only=True)
class Bar:
    """A share from 0 to 1 as a bar, with its text."""

    share: float
    text: str


@record(frozen=True, slots=True, kw_only=True)
class Curve:
    """Values over time: (seconds, value); `most` is the value at the top, else the largest."""

    points: Sequence[tuple[float, float]]
    most: float | None = None


Cell: TypeAlias = str | Bar | Curve
"""What a table can show."""


@record(frozen=True, slots=True, kw_only=True)
class Span:
    """A phase of a run, in seconds since 1970; `kind` is one of `KINDS`."""

    kind: str
    begin: float
    end: float


@record(frozen=True, slots=True, kw_only=True)
class Run:
    """The phases of one run, and its name; the phases follow each other."""

    name: str
    spans: Sequence[Span]


def text(raw: str) -> str:
    """Untrusted text: tags are escaped, control characters and invalid UTF-8 are made visible."""
    return html.escape(visible(raw, keep=LINES))


def cell(content: Cell, tag: str) -> str:
    """One cell of a table."""
    if isinstance(content, Bar):
        share = 100 * min(1.0, max(0.0, content.share))
        return (
            f"<{tag}><span class='bar'><i style='width:{share:.1f}%'></i></span>{text(content.text)}</{tag}>"
        )
    if isinstance(content, Curve):
        return f"<{tag}>{_curve(content)}</{tag}>"
    long = " class='long'" if tag == "td" and len(content) > _LONG else ""
    return f"<{tag}{long}>{text(content)}</{tag}>"


def _curve(curve: Curve) -> str:
    """An area under a line; empty for fewer than two points."""
    points = _thinned(curve.points)
    if len(points) < 2:
        return ""
    first, last = points[0][0], points[-1][0]
    top = curve.most or max(value for _, value in points) or 1.0
    places = [
        f"{100 * (when - first) / (last - first or 1.0):.1f} {19 - 18 * min(1.0, max(0.0, value / top)):.1f}"
        for when, value in points
    ]
    return (
        "<svg class='curve' viewBox='0 0 100 20' preserveAspectRatio='none' role='img'>"
        f"<path d='M0 20L{'L'.join(places)}L100 20Z'/></svg>"
    )


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The means of at most `_POINTS` equal parts."""
    if len(points) <= _POINTS:
        return list(points)
    parts = [points[i * len(points) // _POINTS : (i + 1) * len(points) // _POINTS] for i in range(_POINTS)]
    return [(part[0][0], sum(value for _, value in part) / len(part)) for part in parts]


def timeline(runs: Sequence[Run]) -> Iterator[str]:
    """A row for each run, its phases one after the other, and a key of the colours. A single run has a row for each phase."""
    spans = [span for run in runs for span in run.spans]
    first, last = min(span.begin for span in spans), max(span.end for span in spans)
    scale = 100 / max(1.0, last - first)
    single = len(runs) == 1
    rows = (
        [(KINDS[span.kind] if span.kind != "bad" else "training, failed", [span]) for span in runs[0].spans]
        if single
        else [(run.name, list(run.spans)) for run in runs]
    )
    many = " many" if len(rows) > _MANY else ""
    tall = " tall" if len(rows) > 3 * _MANY else ""
    if not single:
        used = [kind for kind in KINDS if any(span.kind == kind for span in spans)]
        keys = "".join(f"<span><i class='{kind}'></i>{KINDS[kind]}</span>" for kind in used)
        yield f"<div class='key'>{keys}</div>"
    yield f"<div class='scroll{tall}'><div class='time{many}'>"
    for name, own in rows:
        bars = "".join(
            f"<i class='{span.kind}' style='left:{(span.begin - first) * scale:.2f}%;"
            f"width:{max(0.0, span.end - span.begin) * scale:.2f}%'></i>"
            for span in own
        )
        lasted = Duration(max(0, round(own[-1].end - own[0].begin))) if own else Duration(0)
        yield (
            f"<div class='name'>{text(name)}</div><div class='track'>{bars}</div>"
            f"<div class='lasted'>{lasted}</div>"
        )
    yield "</div></div>"


STYLE = """\
:root{--ink:#1c2733;--pale:#5c6b7a;--line:#d9e0e7;--ground:#fff;--soft:#f5f7f9;--good:#1a7f4b;--bad:#c0362c;--open:#0969a8;
--queue:#d4a72c;--prepare:#8250df;color-scheme:light}
@media screen and (prefers-color-scheme:dark){:root{--ink:#e5eaf0;--pale:#9aa8b6;--line:#33404d;--ground:#12181f;--soft:#1a222b;
--good:#2f9e66;--bad:#e5594f;--open:#4a9bd6;--queue:#c99a26;--prepare:#9d78e8;color-scheme:dark}
.picture{filter:invert(.92) hue-rotate(180deg)}}
*{box-sizing:border-box}body{margin:0;background:var(--ground);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:72rem;margin:0 auto;padding:2rem 1.25rem 4rem}h1{font-size:1.6rem;line-height:1.3;margin:0;overflow-wrap:anywhere}
h2{font-size:1.1rem;margin:2.2rem 0 .6rem}p.note{color:var(--pale);margin:.3rem 0}
.state{display:inline-block;padding:.1rem .7rem;
border-radius:1rem;color:#fff;background:var(--open);font-size:1rem;font-weight:600}
.state.good{background:var(--good)}.state.bad{background:var(--bad)}
dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:.15rem 1.2rem;margin:1rem 0}
dt{color:var(--pale)}dd{margin:0;overflow-wrap:anywhere}.word{display:inline-block;max-width:100%}
.scroll{overflow-x:auto;max-width:100%}.tall{max-height:30rem;overflow-y:auto}
table{border-collapse:collapse;font-size:.9rem}th{text-align:left;color:var(--pale);font-weight:600}
th,td{padding:.25rem 1rem .25rem 0;border-bottom:1px solid var(--line);vertical-align:top;white-space:nowrap}
.tall th{position:sticky;top:0;background:var(--ground)}
td.long{white-space:normal;min-width:18rem;max-width:34rem;overflow-wrap:anywhere}
.bar{display:inline-block;width:7rem;height:.7rem;margin-right:.5rem;
border-radius:.2rem;background:var(--line);vertical-align:baseline}
.bar i{display:block;height:100%;border-radius:.2rem;background:var(--open)}
svg.curve{width:8rem;height:1.3rem;display:block}
svg.curve path{fill:var(--open);fill-opacity:.25;stroke:var(--open);stroke-width:1.2;
vector-effect:non-scaling-stroke}
pre{background:var(--soft);border:1px solid var(--line);border-radius:.4rem;padding:.7rem .9rem;overflow-x:auto;margin:.4rem 0;
font:13px/1.45 ui-monospace,monospace;white-space:pre-wrap;overflow-wrap:anywhere}summary{cursor:pointer;overflow-wrap:anywhere}
.picture{background:#fff;border:1px solid var(--line);border-radius:.4rem;padding:.5rem}
.picture svg{max-width:100%;height:auto}
.time{display:grid;grid-template-columns:minmax(3.5rem,max-content) minmax(8rem,1fr) max-content;
gap:.2rem .7rem;align-items:center;font-size:.85rem}
.time.many{gap:.1rem .6rem;font-size:.75rem;line-height:1.2}
.time .track{position:relative;height:1rem;background:var(--soft);border-radius:.2rem}.time.many .track{height:.7rem}
.time .track i{position:absolute;top:0;bottom:0;min-width:2px;border-radius:.15rem}
.time .name{overflow-wrap:anywhere;max-width:14rem}.time .lasted{color:var(--pale);white-space:nowrap}
.key{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;color:var(--pale);font-size:.85rem;margin:.5rem 0}
.key i{display:inline-block;width:.8rem;height:.8rem;border-radius:.15rem;margin-right:.4rem;vertical-align:-.08rem}
i.queue{background:var(--queue)}i.prepare{background:var(--prepare)}i.train{background:var(--good)}i.bad{background:var(--bad)}
i.open{background:var(--open)}
.parts{display:flex;height:1.2rem;border-radius:.3rem;overflow:hidden;background:var(--line)}.parts i{display:block}
footer{margin-top:3rem;color:var(--pale);overflow-wrap:anywhere}
@media screen and (max-width:40rem){main{padding:1.2rem .9rem 3rem}h1{font-size:1.25rem}
dl{grid-template-columns:minmax(0,1fr);gap:0}dd{margin-bottom:.5rem}
.time{grid-template-columns:minmax(0,1fr) max-content;grid-auto-flow:dense}.time .name{max-width:none}
.time .track{grid-column:1/-1}
.time.many{grid-template-columns:minmax(2.5rem,max-content)
 minmax(5rem,1fr) max-content}
.time.many .name{max-width:7rem}.time.many .track{grid-column:auto}
td.long{min-width:14rem}.picture svg{max-width:44rem}}
@page{size:A4;margin:14mm}
@media print{body{font-size:10pt}main{max-width:none;padding:0}.scroll,.tall{overflow:visible;max-height:none}
table{width:100%;font-size:8pt}th,td,td.long{white-space:normal;min-width:0;max-width:none;padding-right:.6rem;overflow-wrap:anywhere}
th{overflow-wrap:normal}
.tall th{position:static}h2,summary{break-after:avoid}tr,.picture,.time>*,dl{break-inside:avoid}.picture svg{max-width:100%}
.bar{width:4.5rem}svg.curve{width:5rem}*{print-color-adjust:exact;-webkit-print-color-adjust:exact}pre{font-size:8pt}}
"""
