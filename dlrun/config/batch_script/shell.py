"""The body of a batch script, split into commands: continued lines joined, blocks kept whole."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

_OPENS = re.compile(
    r"^(?:if|for|while|until|case|select)\b|^(?:function\s+)?[\w-]+\s*\(\)\s*(?:\{|$)|^\{\s*$|^\(\s*$|\{\s*$"
)
_CLOSES = re.compile(r"^(?:fi|done|esac|\}|\))(?:\s|;|&|$)|;\s*(?:fi|done|esac|\})\s*$")
_HERE = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")


@dataclass(frozen=True, slots=True)
class Command:
    """One command, or one whole block, with the number of its first line."""

    line: int
    text: str
    block: bool = False


def commands(lines: list[tuple[int, str]]) -> Iterator[Command]:
    """Commands of numbered lines, without blank lines and comments."""
    rest = list(lines)
    while rest:
        number, text = rest.pop(0)
        text = text.strip()
        while text.endswith("\\") and rest:
            text = f"{text[:-1].rstrip()} {rest.pop(0)[1].strip()}"
        text = without_comment(text)
        if not text:
            continue
        while _is_open(text) and rest:
            text = f"{text}\n{rest.pop(0)[1]}"
        here = _HERE.search(text)
        # Without an end mark it is not a here-document, but a shift such as `$((1 << n))`.
        if here and any(line.strip() == here[2] for _, line in rest):
            body = [text]
            while rest and body[-1].strip() != here[2]:
                body.append(rest.pop(0)[1])
            yield Command(number, "\n".join(body), block=True)
        elif _OPENS.search(text) and not _CLOSES.search(text):
            yield Command(number, _block(text, rest), block=True)
        else:
            yield Command(number, text, block=bool(_OPENS.search(text)))


# A word-based count, not a shell parser: blocks are only copied, so their inner structure does not matter.
def _block(first: str, rest: list[tuple[int, str]]) -> str:
    depth, body = 1, [first]
    while rest and depth > 0:
        text = rest.pop(0)[1].rstrip()
        body.append(text)
        word = text.strip()
        opens, closes = bool(_OPENS.search(word)), bool(_CLOSES.search(word))
        depth += (opens and not closes) - (closes and not opens)
    return "\n".join(body)


def _is_open(text: str) -> bool:
    """True if a quotation continues in the next line."""
    try:
        shlex.split(text)
    except ValueError:
        return True
    return False


def without_comment(text: str) -> str:
    """A command without its trailing comment; a `#` in quotes or within a word is not a comment."""
    quote, before = "", " "
    for index, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote and before != "\\" else quote
        elif letter in "'\"" and before != "\\":
            quote = letter
        elif letter == "#" and before in " \t":
            return text[:index].rstrip()
        before = letter
    return text


def names_used(text: str) -> set[str]:
    """Names of the variables that a piece of shell text expands."""
    return set(re.findall(r"\$\{?[#!]?([A-Za-z_]\w*)", text))
