"""Text that may hold parts known only on the node.

A `$` in a user's string is a dollar sign. What must expand where the job runs has a type of its own,
so the two can never be confused and everything else can be quoted for the shell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Shell:
    """A shell expansion such as `$SLURM_JOB_ID` or `$(hostname -i)`, valid inside double quotes.

    Only dlrun's own code and site profiles (in the fields for shell text) make these.
    """

    code: str


@dataclass(frozen=True, slots=True)
class Text:
    """A word made of literal pieces and shell expansions, in order."""

    parts: tuple[str | Shell, ...]

    @classmethod
    def of(cls, *parts: str | Shell | Text) -> Text:
        """Join pieces into one word, merging neighbouring literals."""
        flat: list[str | Shell] = []
        for part in parts:
            for piece in part.parts if isinstance(part, Text) else (part,):
                if isinstance(piece, str) and flat and isinstance(flat[-1], str):
                    flat[-1] += piece
                elif piece != "":
                    flat.append(piece)
        return cls(tuple(flat))

    @property
    def literal(self) -> str | None:
        """The text if nothing in it waits for the node, else None."""
        return "".join(str(p) for p in self.parts) if all(isinstance(p, str) for p in self.parts) else None

    def __str__(self) -> str:
        """For people: expansions appear as they will in the script."""
        return "".join(part if isinstance(part, str) else part.code for part in self.parts)


Word: TypeAlias = str | Shell | Text

_NODE_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")


_TILDE = re.compile(r"^~(?=/|$)")


def expanding(text: str) -> Text:
    """Text in which `$NAME`, `${NAME}` and a `~` at its beginning expand on the node, nothing else (site profiles' paths)."""
    text = _TILDE.sub("$HOME", text)
    pieces: list[str | Shell] = []
    end = 0
    for match in _NODE_VARIABLE.finditer(text):
        pieces += [text[end : match.start()], Shell(f"${{{match[1] or match[2]}}}")]
        end = match.end()
    return Text.of(*pieces, text[end:])


UNSET = "is not set where the job runs"
"""What a shell reports, after a variable's name, where `{{ env.NAME }}` has no value."""


class NodeVariables(Mapping[str, Shell]):
    """The `env` of `{{ env.NAME }}`: any variable, expanded on the node; where it is not set, the rank ends with UNSET."""

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
    """True for a whole number that `int` takes: `isdigit` alone is true of `²` and of ten thousand nines."""
    return text.isascii() and text.isdigit() and len(text) < 19


LINES = "\n\t"
"""What `visible` keeps in text that may have several lines."""


def visible(text: str, keep: str = "") -> str:
    """Text that others wrote, for a terminal: its control characters as escapes, but for those in `keep`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else repr(c)[1:-1] for c in text)
