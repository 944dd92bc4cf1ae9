"""The types of the table of known errors: causes with a check and a way out, writers of messages, and their forms.

A form is the literal text of an error as its library's source has it, `{}` for what differs and `{1}` for the part that
names the thing. Documentation shows the same text, so what is searched for and what is matched cannot differ.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dlrun.schedulers.log_forms import Form, Writer

__all__ = ["Advice", "Evidence", "Form", "OwnMessages", "Pattern", "Writer", "patterns_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What a cause means, how to verify that it is the cause, and the way out.

    means, named: without and with the thing that the line names (`{1}`). roots: causes that lead to this one, whatever is
    printed in between, and though programs may only warn of them. roots_of_path: the same where their line names the path that
    this one names, or a directory above it.
    """

    means: str
    check: str
    next: str
    named: str | None = None
    roots: tuple[str, ...] = ()
    roots_of_path: tuple[str, ...] = ()


WITHOUT_NAME = re.compile(r" \(\{1\}\)|: ?\{1\}(?=$|[;,])")
"""The part of a meaning that names the thing, which is left out where a line names none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """One kind of failure, as it is matched: a regular expression for one line, its meaning (`{1}`: first group), a check and
    the next step.

    named: the meaning of a line whose group is not empty; any_case: letters match in either case; word: a word of
    every matching line in lower case, by which the pattern is found quickly; empty: it is always compared.
    """

    cause: str
    regex: str
    means: str
    next: str
    consequence: bool = False
    passing: bool = False
    named: str | None = None
    check: str | None = None
    any_case: bool = False
    word: str = ""
    writer: str | None = None
    stack: str = ""

    def meaning(self, values: tuple[str, ...]) -> str:
        """`means`, or `named` with the first of the groups' values where there is one."""
        if values and self.named is not None:
            return self.named.replace("{1}", values[0])
        means = self.means if values else WITHOUT_NAME.sub("", self.means)
        return means.replace("{1}", values[0] if values else "it")

    def way_out(self, values: tuple[str, ...]) -> str:
        """`next`, with the first of the groups' values."""
        return self.next.replace("{1}", values[0] if values else "it")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A log line with a cause, and the values of its pattern's groups."""

    log: str
    line: str
    pattern: Pattern
    values: tuple[str, ...] = ()


def patterns_of(form: Form, writer: Writer, advice: Advice) -> list[Pattern]:
    """The patterns of a form, one for each text and one for `regex`."""
    begin = r"(?<!\w)" if form.exact else ""
    rows = [(begin + _regex(text), _word(text), not form.exact) for text in form.texts]
    if form.regex:
        rows.append((form.regex, "", False))
    return [
        Pattern(
            cause=form.cause,
            regex=regex,
            means=form.means or advice.means,
            named=None if form.means else advice.named,
            check=form.check or advice.check,
            next=form.next or advice.next,
            consequence=form.consequence,
            passing=form.passing,
            word=word,
            any_case=any_case,
            writer=writer.name,
            stack=form.stack,
        )
        for regex, word, any_case in rows
    ]


_GAP = 500
"""Characters that a variable part has at most, except at the end of a line and at its beginning: the time that a comparison takes
would grow with the square of a line's length."""


def _regex(text: str) -> str:
    """A text as a regular expression: `{}` matches anything, `{1}` is a group: a word, or the rest of the line.

    A part at the beginning matches from the line's own beginning: a search would try it at each of its characters.
    """
    parts = re.split(r"(\{1?\})", text.removeprefix("{}"))
    last = len(parts) - 2 if parts[-1] == "" else -1
    found = []
    for number, part in enumerate(parts):
        first = not any(parts[:number])
        if part == "{}":
            found.append(f".{{0,{_GAP}}}?")
        elif part == "{1}" and number == last:
            found.append(r"(\S.*)")
        elif part == "{1}":
            found.append("^(.+?)" if first else f"(.{{1,{_GAP}}}?)")
        else:
            found.append(re.escape(part))
    return "".join(found)


def _word(text: str) -> str:
    """The longest word of a text that is whole in every line, in lower case; empty without one.

    Words end at `_`: libraries lengthen their identifiers (`…_ERROR_MEMORY` to `…_ERROR_MEMORY_VIOLATION`).
    """
    parts = re.split(r"\{1?\}", text.lower())
    words = [
        match[0]
        for number, part in enumerate(parts)
        for match in re.finditer(r"[a-z0-9]+", part)
        if (match.start() > 0 or number == 0) and (match.end() < len(part) or number == len(parts) - 1)
    ]
    return max(words, key=len, default="")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnMessages:
    """The messages of one cause, and the next step.

    consequence: the actual cause is in another message, if known; general: the message ends with a system error, for which
    other patterns are more specific.
    """

    next: str
    messages: tuple[str, ...]
    consequence: bool = False
    general: bool = False
