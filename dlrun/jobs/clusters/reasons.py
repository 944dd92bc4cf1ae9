"""Pending reasons in plain English, for people; `--json` has the scheduler's own text."""

from __future__ import annotations

from dlrun import backends


def in_words(reason: str) -> str:
    """The text for a reason, of the first scheduler that has one; its scheduler's own text where there is none."""
    code = reason.partition(",")[0].strip().removeprefix("(").removesuffix(")")
    found = (module.in_words(reason, code) for module in backends.parts("reasons"))
    return next((words for words in found if words is not None), reason)
