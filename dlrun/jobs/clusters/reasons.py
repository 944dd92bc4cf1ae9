"""Pending reasons in plain English, for people; `--json` has the scheduler's own text."""

from __future__ import annotations

from contextlib import suppress

from dlrun import backends
from dlrun.errors import Invalid


def in_words(reason: str) -> str:
    """The text for a reason, of the first scheduler that has one; its scheduler's own text where there is none."""
    code = reason.partition(",")[0].strip().removeprefix("(").removesuffix(")")
    # Those of other packages are seldom needed, and take a while to find.
    for find in (backends.own_parts, backends.other_parts):
        with suppress(Invalid):  # one that cannot be imported: commands that use its scheduler name it
            for module in find("reasons"):
                if (words := module.in_words(reason, code)) is not None:
                    return str(words)
    return reason
