"""A job's page: one self-contained HTML file without scripts and external resources, for a colleague or a help desk."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dlrun.model.record import record
from dlrun.usage.report_drawing import Cell, Run, cell, text, timeline
from dlrun.usage.report_style import STYLE

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
        yield f"<h2>Warnings</h2><ul>{''.join(f'<li>{text(one)}</li>' for one in report.warnings)}</ul>"
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
        yield f"<tr>{''.join(cell(one, 'td') for one in row)}</tr>"
    yield "</tbody></table></div>" + ("</details>" if closed else "")
