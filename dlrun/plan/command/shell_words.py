"""Quoting of values in a user's shell text (`run:`), so that each remains one word."""

from __future__ import annotations

import re
import shlex

from dlrun.model.text import Shell, Text


def quotes_open(text: str) -> str:
    """The quote character open at the end of a shell text: `'`, `"` or empty."""
    quote, escaped = "", False
    for letter in text:
        if escaped:
            escaped = False
        elif letter == "\\" and quote != "'":
            escaped = True
        elif letter in "'\"" and quote in {"", letter}:
            quote = "" if quote else letter
    return quote


def word(value: str | Shell | Text, quote: str) -> str:
    """A value as shell text inside the open quote `quote`.

    Values known only on the node are exported variables, expanded by the shell that reads the text.
    """
    if isinstance(value, Text):
        return "".join(word(part, quote) for part in value.parts) or ("" if quote else "''")
    if isinstance(value, Shell):
        return {"": f'"{value.code}"', '"': value.code, "'": f"'\"{value.code}\"'"}[quote]
    if quote == "'":
        return value.replace("'", "'\\''")
    return re.sub(r'([\\"$`])', r"\\\1", value) if quote else shlex.quote(value)
