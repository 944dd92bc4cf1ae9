"""The imported spec as YAML text, with lists of what the user has to check and of what was not converted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from dlrun.config.block_text import block
from dlrun.config.secret_names import masked
from dlrun.importing.words import Word
from dlrun.model.text import visible
from dlrun.schedulers.draft import Left, SpecDraft


def spec_text(draft: SpecDraft, file: str | None, site: str | None = None) -> str:
    """The YAML text of a draft; lines of `file` that were not converted are listed at the end (`file` None: no list)."""
    values = dict(draft.values)
    if site:
        values = {"name": values.pop("name"), "site": site, **values}
    lines = [
        f"# {f'From {file}. ' if file else ''}`dlrun plan` shows the resulting plan, `dlrun explain KEY` why.",
    ]
    if draft.to_check and file:
        lines += [
            f"# check this: dlrun may not do the same as these lines of {file}",
            *_listed(draft.to_check),
        ]
    notes = {key: _lines(line_numbers) for key, line_numbers in draft.origins.items()} if file else {}
    lines += block(values, draft.comments, notes=notes)
    if draft.left_out and file:
        lines += ["", f"# Not converted from {file}:", *_listed(draft.left_out)]
    return "\n".join(lines) + "\n"


def _lines(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, sorted(numbers)))
    return f"line {shown}" if len(numbers) == 1 else f"lines {shown}"


def shown(left: Left) -> str:
    """One line about a part of the script: where, what, why."""
    first, *more = left.text.splitlines() or [""]
    text = f"{masked(first)}{' …' if more else ''}"
    place = f"line {left.line}: " if left.line else ""
    return visible(f"{place}{text}: {left.because}" if text else f"{place}{left.because}")


def as_data(draft: SpecDraft) -> dict[str, Any]:
    """The parts of a draft for `--json`."""
    return {
        "values": draft.values,
        "to_check": [_entry(left) for left in draft.to_check],
        "left_out": [_entry(left) for left in draft.left_out],
    }


def _entry(left: Left) -> dict[str, Any]:
    return {
        "line": left.line,
        "text": "\n".join(map(masked, left.text.splitlines())),
        "because": left.because,
    }


def _listed(entries: Sequence[Left]) -> Iterator[str]:
    return (f"#   {shown(entry)}" for entry in entries)


def starts_of_lines(text: str) -> list[int]:
    """Where each line begins, and where the text ends."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def places(text: str, start: int, words: tuple[Word, ...]) -> list[tuple[int, int]] | None:
    """Where each word of a command begins and ends in the text, from a place on; None if they are not there as written."""
    spans: list[tuple[int, int]] = []
    for word in words:
        after = spans[-1][1] if spans else start
        written = _written(word.source).search(text, after) if word.source else None
        if written is None or (spans and text[after : written.start()].replace("\\\n", "").strip()):
            return None
        spans.append(written.span())
    return spans


def _written(source: str) -> re.Pattern[str]:
    """A word's source as it may stand in the text: `syntax.statements` reads some of its names with braces that are not there."""
    either = r"\\$(?:\1|\\{\1\\})"
    return re.compile(re.sub(r"\\\$\\\{(\w+|@|\\[*#?])\\\}", either, re.escape(source)))
