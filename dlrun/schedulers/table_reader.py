"""Directives of a batch script, read by the table of options of its scheduler."""

from __future__ import annotations

import re

from dlrun.schedulers.directive_words import OPTION, PLACEHOLDER, words_of
from dlrun.schedulers.draft import SpecDraft
from dlrun.schedulers.options import OptionRow
from dlrun.schedulers.protocol import Scheduler


class TableReader:
    """Reads lines that begin with the back end's prefix (`LINE`) into a draft."""

    def __init__(self, back_end: Scheduler) -> None:
        self.LINE = re.compile(rf"{re.escape(back_end.PREFIX)}\s+(.*)")
        self._options = back_end.OPTIONS

    def directive(self, line: int, text: str, draft: SpecDraft) -> None:
        """One line without its prefix: `-n 4 -W 1:00`, `--nodes=2`."""
        words = words_of(text)
        while words:
            word = words.pop(0)
            if not word.startswith("-") or word == "-":
                draft.check(line, word, "not an option")
                continue
            name, equals, value = word.lstrip("-").partition("=")
            shown = word
            if not equals and words and (words[0] == "-" or not words[0].startswith("-")):
                value = words.pop(0)
                shown = f"{word} {value}"
            self._option(line, shown, name, value, draft)

    def _option(self, line: int, shown: str, name: str, value: str, draft: SpecDraft) -> None:
        row = self._options.row(name)
        if row is None and value and OPTION.fullmatch(name):
            draft.put(f"resources.options.{name}", value)
        elif row is None:
            draft.check(line, shown, "an option that dlrun does not know")
        elif row.reason:
            draft.leave(line, shown, row.reason)
        elif PLACEHOLDER.fullmatch(value) and row.read is None:
            draft.check(line, shown, f"a placeholder: write the value under `{row.key}`")
        elif not _taken(row, value, draft):
            draft.check(line, shown, f"it cannot be converted: set {row.key}")


def _taken(row: OptionRow, value: str, draft: SpecDraft) -> bool:
    """Put what the option says into the draft; False if it cannot be read."""
    if row.read is None:
        if not re.fullmatch(r"[a-z_]+(\.[a-z_]+)*", row.key):
            return False
        draft.put(row.key, value)
        return True
    keys = row.read(value)
    for key, read in (keys or {}).items():
        if key.startswith("count."):
            draft.count(key.removeprefix("count."), str(read))
        else:
            draft.put(key, read)
    return keys is not None
