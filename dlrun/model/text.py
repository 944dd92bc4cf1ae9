"""Text with parts that are known only on the node.

A `$` in a user's string is a literal character. Shell expansions have a separate type, so that everything else can be
quoted for the shell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, AnyStr, TypeAlias

from dlrun.model.record import record


class _LazyPattern:
    def __init__(self, *made_of: Any) -> None:
        self._made_of = made_of

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(re.compile(*self._made_of), name)
        setattr(self, name, attribute)
        return attribute


def lazy_pattern(regex: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """A regular expression that is compiled on first use.

    Compiling one takes 0.1 to 0.5 ms; dlrun has dozens, and a command needs few of them.
    """
    return _LazyPattern(regex, flags)  # type: ignore[return-value]


@record(frozen=True, slots=True)
class Shell:
    """A shell expansion such as `$SLURM_JOB_ID` or `$(hostname -i)`, valid inside double quotes.

    Created only by dlrun's code and by site profiles' fields for shell text.
    """

    code: str


@record(frozen=True, slots=True)
class Text:
    """A word made of literal pieces and shell expansions, in order."""

    parts: tuple[str | Shell, ...]

    @classmethod
    def of(cls, *parts: str | Shell | Text) -> Text:
        """Join pieces into one word, merging neighbouring literals."""
        flat: list[str | Shell] = []
        for part in parts:
            for piece in part.parts if isinstance(part, Text) else (part,):
                # Merged, so that texts with the same content are equal.
                if isinstance(piece, str) and flat and isinstance(flat[-1], str):
                    flat[-1] += piece
                elif piece != "":
                    flat.append(piece)
        return cls(tuple(flat))

    @property
    def literal(self) -> str | None:
        """The text if it has no shell expansions, else None."""
        return "".join(str(p) for p in self.parts) if all(isinstance(p, str) for p in self.parts) else None

    def __str__(self) -> str:
        """For display, with expansions as in the script."""
        return "".join(part if isinstance(part, str) else part.code for part in self.parts)


Word: TypeAlias = str | Shell | Text

_NODE_VARIABLE = lazy_pattern(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")


_HOME = lazy_pattern(r"^~(?=/|$)")


def expanding(text: str) -> Text:
    """Text in which `$NAME`, `${NAME}` and a `~` at its beginning expand on the node, nothing else (site profiles' paths)."""
    text = _HOME.sub("$HOME", text)
    pieces: list[str | Shell] = []
    end = 0
    for match in _NODE_VARIABLE.finditer(text):
        pieces += [text[end : match.start()], Shell(f"${{{match[1] or match[2]}}}")]
        end = match.end()
    return Text.of(*pieces, text[end:])


UNSET = "is not set where the job runs"
"""The shell's message, after the name of the variable, if the variable of `{{ env.NAME }}` is not set."""


class NodeVariables(Mapping[str, Shell]):
    """The `env` of `{{ env.NAME }}`: any variable, expanded on the node; a rank fails with UNSET if it is not set."""

    def __init__(self, without: frozenset[str] = frozenset()) -> None:
        self._without = without

    def __getitem__(self, name: str) -> Shell:
        if name in self._without or not name.isascii() or not name.isidentifier():
            raise KeyError(name)
        return Shell(f"${{{name}?{UNSET}}}")

    def __iter__(self) -> Iterator[str]:
        return iter(("NAME",))

    def __len__(self) -> int:
        return 1


def of_node(code: str) -> bool:
    """True for the shell code of a variable of `env`."""
    return code.endswith(f"?{UNSET}}}")


def digits(text: str) -> bool:
    """True for a whole number that `int` accepts; `isdigit` alone is also true for `²` and for numbers of unlimited length."""
    return text.isascii() and text.isdigit() and len(text) < 19


def whole_number(value: object) -> int | None:
    """The number in a program's output; None for anything else."""
    return int(str(value)) if value is not None and digits(str(value)) else None


LINES = "\n\t"
"""The `keep` of `visible` for text of several lines."""


def visible(text: str, keep: str = "") -> str:
    """Untrusted text for a terminal: control characters are escaped, except those in `keep`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else repr(c)[1:-1] for c in text)
