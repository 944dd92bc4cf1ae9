"""How a dataclass field describes the YAML key that it is: documentation and bounds, in one place.

The decoder, the JSON Schema, the reference pages and the error messages all read the same metadata. A schema class may
also have `REMOVED: ClassVar[Mapping[str, str]]`: keys of earlier versions, each with what to do instead.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, field
from typing import Any, Literal

MOST = 1_000_000
"""The most that a number can be if its key says nothing else: what is counted is made, one by one."""

PLAIN = r"[^\x00-\x1f\x7f]+"
"""Text that can stand in a directive or a file name: no control characters, not empty."""

VARIABLE_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
"""A name that a shell variable can have."""

BACK_END = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
"""The name of a scheduler, launcher, framework or fabric."""

OPTION_NAME = r"[A-Za-z][A-Za-z0-9_.-]*"
"""The name of a scheduler option, without its dashes."""


def key(
    doc: str,
    *,
    default: Any = MISSING,
    factory: Callable[[], Any] | None = None,
    minimum: int | None = None,
    maximum: int | None = None,
    pattern: str | None = None,
    expected: str | None = None,
    names: str | None = None,
    lone: Literal["word", "text", "never"] = "word",
) -> Any:
    """A dataclass field that is a key of a user's file.

    `minimum` bounds an int, a size, a time or how many items a list of texts has, `maximum` an int (default: MOST);
    `pattern` (a full match) a str, or each str of a list or mapping; `names` (a full match) the names of a mapping.
    `expected` is how to describe what fits, for messages. `lone` says when one text may stand for a list of one: if
    it is one word, any text, or never.
    """
    metadata = {
        "doc": doc,
        "minimum": minimum,
        "maximum": maximum,
        "pattern": pattern,
        "expected": expected,
        "names": names,
        "lone": lone,
    }
    if factory is not None:
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata)


def names(schema: type) -> tuple[str, ...]:
    """The keys that a mapping of this dataclass may have, in the order declared."""
    return tuple(f.name for f in dataclasses.fields(schema))
