"""Bars, curves and the timeline of a job's page, as CSS boxes and inline SVG: they follow the page's width and colours."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from dlrun.model.record import record
from dlrun.model.text import LINES, visible
from dlrun.model.units import Duration

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
