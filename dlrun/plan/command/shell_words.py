"""Values put into shell text of a user's (`run:`), so that each stays one word whatever it holds."""

from __future__ import annotations

import re
import shlex

from dlrun.model.text import Shell, Text


def quotes_open(text: str) -> str:
    """The quotation that is open at the end of a shell text: `'`, `"`, or nothing."""
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
    """A value as shell text inside this quotation.

    What is known only on the node is an exported variable there, which the shell that reads the text expands.
    """
    if isinstance(value, Text):
        return "".join(word(part, quote) for part in value.parts) or ("" if quote else "''")
    if isinstance(value, Shell):
        return {"": f'"{value.code}"', '"': value.code, "'": f"'\"{value.code}\"'"}[quote]
    if quote == "'":
        return value.replace("'", "'\\''")
    return re.sub(r'([\\"$`])', r"\\\1", value) if quote else shlex.quote(value)
