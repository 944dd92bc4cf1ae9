"""Metadata of dataclass fields that are YAML keys: description and bounds.

The decoder, the JSON Schema, the reference pages and the error messages all read the same metadata. A schema class may
also have `REMOVED: ClassVar[Mapping[str, str]]`: keys of earlier versions, each with advice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, field
from typing import Any, Literal, TypeVar

from dlrun.model.text import lazy_pattern

T = TypeVar("T")

MOST = 1_000_000
"""Default maximum of numbers: most of them are numbers of files, lines or processes that dlrun creates."""

PLAIN = r"[^\x00-\x1f\x7f]+"
"""Text that is valid in a directive or a file name: no control characters, not empty."""

AMOUNT = (
    r"(?=[^1-9]*[1-9])\s*"
    r"(?:(?:100(?:\.0+)?|[0-9]{1,2}(?:\.[0-9]+)?)\s*%|[0-9]{1,9}\s*files?|[0-9]{1,15}\s*[Bb]"
    r"|[0-9]{1,15}(?:\.[0-9]{1,3})?\s*[KMGTPkmgtp][Ii]?[Bb])\s*"
)
"""An amount of data above zero: a share of at most 100 %, a number of files, or a size."""

FILE_NAME = r"(?!\.{1,2}\Z)[^/\x00-\x1f\x7f]+"
"""A name in a directory, without a path."""
VARIABLE_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
"""A name that a shell variable can have."""

DATA_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,127}"
"""The name of a data set: part of the name of a variable and of a path."""

HEADER_NAME = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
"""The name of an HTTP header (RFC 9110, token)."""

BACK_END = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
"""The name of a scheduler, launcher, framework or fabric."""

SIGNAL = r"[A-Z][A-Z0-9+-]{0,15}"
"""A signal's name without `SIG`."""

WORD = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
"""A name that a shell reads as one word without quotes, and that is not a path."""

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
    single: Literal["word", "text", "never"] = "word",
    path: bool = False,
) -> Any:
    """A dataclass field that is a key of a user's file.

    `minimum` bounds an int, a size, a time or how many items a list of texts has, `maximum` an int (default: MOST);
    `pattern` (a full match) a str, or each str of a list or mapping; `names` (a full match) the names of a mapping.
    `expected` describes valid values, for messages. `single`: texts that are accepted as a list of one item: only a
    word, any text, or none. A `path` may begin with `~` or `$HOME`.
    """
    metadata = {
        "doc": doc,
        "minimum": minimum,
        "maximum": maximum,
        "pattern": pattern,
        "expected": expected,
        "names": names,
        "single": single,
        "path": path,
    }
    if factory is not None:
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata)


def saved(
    *, default: Any = MISSING, pattern: str | None = None, minimum: int | None = None, maximum: int = MOST
) -> Any:
    """A field of a plan that is copied into scripts unquoted, with the pattern and bounds for plans read from files."""
    return field(default=default, metadata={"pattern": pattern, "minimum": minimum, "maximum": maximum})


def names(schema: type) -> tuple[str, ...]:
    """The keys that a mapping of this dataclass may have, in the order declared."""
    return tuple(f.name for f in dataclasses.fields(schema))


_HOME = lazy_pattern(r"\$(?:HOME|\{HOME\})(?=/|$)")


def from_home(path: str) -> str:
    """A path with `~` in place of a leading `$HOME`."""
    return _HOME.sub("~", path, count=1) if path.startswith("$") else path


def paths(values: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """The value of every path key under a record, with its dotted key."""
    for declared in dataclasses.fields(values):
        value, at = getattr(values, declared.name), f"{place}.{declared.name}".lstrip(".")
        if not declared.metadata.get("path"):
            yield from _below(value, at)
        elif isinstance(value, str):
            yield at, value
        elif value is not None:
            yield from ((f"{at}.{index}", path) for index, path in enumerate(value))


def _below(value: Any, place: str) -> Iterator[tuple[str, str]]:
    if dataclasses.is_dataclass(value):
        yield from paths(value, place)
    elif isinstance(value, Mapping):
        for name, entry in value.items():
            yield from _below(entry, f"{place}.{name}")


def with_paths(values: T, change: Callable[[str], str]) -> T:
    """A record with all its path keys changed, including those of nested records."""

    def changed(value: Any, *, path: bool) -> Any:
        if dataclasses.is_dataclass(value):
            return with_paths(value, change)
        if isinstance(value, Mapping):
            return {name: changed(entry, path=False) for name, entry in value.items()}
        if not path or value is None:
            return value
        return change(value) if isinstance(value, str) else tuple(map(change, value))

    record: Any = values
    new = {}
    for declared in dataclasses.fields(record):
        before = getattr(record, declared.name)
        if (after := changed(before, path=declared.metadata.get("path", False))) != before:
            new[declared.name] = after
    return dataclasses.replace(record, **new) if new else values
