"""A job's page: one self-contained HTML file without scripts and external resources, for a colleague or a help desk."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence

from dlrun.model.record import record
from dlrun.model.text import LINES, visible
from dlrun.model.units import Duration


@record(frozen=True, slots=True, kw_only=True)
class Span:
    """A phase of a job, in seconds since 1970; `kind` is the CSS class of its colour."""

    name: str
    kind: str
    begin: float
    end: float


@record(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """The last lines of a log, and the number of bytes before them."""

    name: str
    text: str
    before: int


@record(frozen=True, slots=True, kw_only=True)
class Section:
    """A table with its heading."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@record(frozen=True, slots=True, kw_only=True)
class JobReport:
    """The contents of the page. `state` is the job's state, `good` is True for success and None while it is open.

    `cause` are the lines of `dlrun why`, `picture` an SVG document of a node with its ranks (None: unknown).
    """

    title: str
    state: str
    good: bool | None
    facts: Sequence[tuple[str, str]]
    cause: Sequence[str]
    warnings: Sequence[str]
    timeline: Sequence[Span]
    picture: str | None
    sections: Sequence[Section]
    logs: Sequence[LogEnd]
    made: str


_STYLE = """\
:root{--ink:#1c2733;--pale:#5c6b7a;--line:#d9e0e7;--ground:#fff;--soft:#f5f7f9;--good:#1a7f4b;--bad:#c0362c;--open:#0969a8}
@media (prefers-color-scheme:dark){:root{--ink:#e5eaf0;--pale:#9aa8b6;--line:#33404d;--ground:#12181f;--soft:#1a222b;
--good:#4cc38a;--bad:#ff7b72;--open:#6cb6ff}}
*{box-sizing:border-box}body{margin:0;background:var(--ground);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:72rem;margin:0 auto;padding:2rem 1.25rem 4rem}h1{font-size:1.6rem;margin:0}
h2{font-size:1.1rem;margin:2.2rem 0 .6rem}
.state{display:inline-block;padding:.1rem .7rem;border-radius:1rem;color:#fff;background:var(--open);font-weight:600}
.state.good{background:var(--good)}.state.bad{background:var(--bad)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1.2rem;margin:1rem 0}
dt{color:var(--pale)}dd{margin:0;overflow-wrap:anywhere}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem}th{text-align:left;color:var(--pale);font-weight:600}
th,td{padding:.25rem 1rem .25rem 0;border-bottom:1px solid var(--line);vertical-align:top;overflow-wrap:anywhere}
pre{background:var(--soft);border:1px solid var(--line);border-radius:.4rem;padding:.7rem .9rem;overflow-x:auto;margin:.4rem 0;
font:13px/1.45 ui-monospace,monospace;white-space:pre-wrap;overflow-wrap:anywhere}summary{cursor:pointer}
.picture{background:#fff;border:1px solid var(--line);border-radius:.4rem;padding:.5rem}.picture svg{max-width:100%;height:auto}
.time rect.queue{fill:#d4a72c}.time rect.prepare{fill:#8250df}.time rect.train{fill:#1a7f4b}.time rect.bad{fill:#c0362c}
.time text{fill:var(--ink);font:13px system-ui,sans-serif}.time text.pale{fill:var(--pale)}
footer{margin-top:3rem;color:var(--pale)}
"""


def page(report: JobReport) -> str:
    """The whole page."""
    return "".join(f"{line}\n" for line in _lines(report))


def _text(text: str) -> str:
    """Untrusted text: tags are escaped, control characters and invalid UTF-8 are made visible."""
    return html.escape(visible(text, keep=LINES))


def _lines(report: JobReport) -> Iterator[str]:
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
    # Logs are untrusted text: should an escape be missed, no script of theirs may run.
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    yield f"<title>{_text(report.title)}</title><style>{_STYLE}</style></head><body><main>"
    kind = {True: " good", False: " bad", None: ""}[report.good]
    yield f'<h1>{_text(report.title)} <span class="state{kind}">{_text(report.state)}</span></h1>'
    facts = "".join(f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in report.facts)
    yield f"<dl>{facts}</dl>"
    if report.cause:
        yield f"<h2>Why</h2><pre>{_text(chr(10).join(report.cause))}</pre>"
    if report.timeline:
        yield f'<h2>Timeline</h2><div class="scroll">{_timeline(report.timeline)}</div>'
    if report.picture:
        yield f'<h2>Placement</h2><div class="picture scroll">{report.picture}</div>'
    for section in report.sections:
        yield from _table(section)
    if report.warnings:
        yield f"<h2>Warnings</h2><ul>{''.join(f'<li>{_text(one)}</li>' for one in report.warnings)}</ul>"
    if report.logs:
        yield "<h2>Logs</h2>"
    for log in report.logs:
        more = f" (the last lines; {log.before:,} bytes before them)" if log.before else ""
        yield f"<details open><summary>{_text(log.name)}{more}</summary><pre>{_text(log.text)}</pre></details>"
    yield f"<footer>{_text(report.made)}</footer></main></body></html>"


def _table(section: Section) -> Iterator[str]:
    if not section.rows:
        return
    yield f"<h2>{_text(section.title)}</h2>"
    yield f'<div class="scroll"><table><thead><tr>{_cells(section.header, "th")}</tr></thead><tbody>'
    for row in section.rows:
        yield f"<tr>{_cells(row, 'td')}</tr>"
    yield "</tbody></table></div>"


def _cells(texts: Iterable[str], tag: str) -> str:
    return "".join(f"<{tag}>{_text(text)}</{tag}>" for text in texts)


_WIDTH, _LABELS, _ROW = 900, 200, 30
"""Widths of timeline and labels, and height of a row, in pixels."""


def _timeline(spans: Sequence[Span]) -> str:
    """The spans as bars, one per row, with their durations."""
    first, last = min(span.begin for span in spans), max(span.end for span in spans)
    scale = (_WIDTH - _LABELS - 110) / max(1.0, last - first)
    height = len(spans) * _ROW
    parts = [
        f"<svg class='time' viewBox='0 0 {_WIDTH} {height}' width='{_WIDTH}' height='{height}' role='img'>"
    ]
    for number, span in enumerate(spans):
        x, width = _LABELS + (span.begin - first) * scale, max(2.0, (span.end - span.begin) * scale)
        y, lasted = number * _ROW, Duration(max(0, round(span.end - span.begin)))
        parts.append(f"<text x='0' y='{y + 20}'>{_text(span.name)}</text>")
        parts.append(
            f"<rect class='{_text(span.kind)}' x='{x:.1f}' y='{y + 6}' width='{width:.1f}' height='18' rx='3'/>"
        )
        parts.append(f"<text class='pale' x='{x + width + 8:.1f}' y='{y + 20}'>{lasted}</text>")
    return "".join([*parts, "</svg>"])
