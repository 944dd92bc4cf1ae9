"""The type hints of a dataclass, in the form used by the decoder and the JSON Schema."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING
from functools import cache
from typing import Any, Literal

from dlrun.model.record import is_dataclass, record
from dlrun.model.units import Bytes, Duration

SCALARS: tuple[type, ...] = (str, int, float, bool, Bytes, Duration)


@record(frozen=True, slots=True, kw_only=True)
class Hint:
    """The allowed forms of a value: nothing (None), fixed words, and other forms.

    `scalars` are types of texts, `items` the element hints of a list (`fixed`: exactly these, else any
    number of the first), `values` the hint of a mapping's values, `schema` a nested dataclass.
    """

    nothing: bool = False
    words: tuple[str, ...] = ()
    scalars: tuple[type, ...] = ()
    items: tuple[Hint, ...] = ()
    fixed: bool = False
    values: Hint | None = None
    schema: type | None = None
    anything: bool = False


@record(frozen=True, slots=True, kw_only=True)
class Key:
    """One key of a dataclass: its hint and the metadata of `dlrun.model.keys.key`."""

    name: str
    hint: Hint
    required: bool
    default: Any = None
    doc: str = ""
    minimum: int | None = None
    maximum: int | None = None
    pattern: str | None = None
    expected: str | None = None
    names: str | None = None
    single: Literal["word", "text", "never"] = "word"
    path: bool = False


@cache
def keys(schema: type) -> Mapping[str, Key]:
    """The keys of a dataclass by name, in the order declared."""
    # Annotations are texts (`from __future__ import annotations`), which `field.type` does not resolve.
    hints = typing.get_type_hints(schema)
    schema_keys = {}
    for field in dataclasses.fields(schema):
        required = field.default is MISSING and field.default_factory is MISSING
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        schema_keys[field.name] = Key(
            name=field.name,
            hint=read(hints[field.name]),
            required=required,
            default=None if required else default,
            **field.metadata,
        )
    return schema_keys


@cache
def read(hint: Any) -> Hint:
    """The forms that a type hint allows; raises TypeError for types that YAML cannot express."""
    if hint is Any:
        return Hint(anything=True)
    if isinstance(hint, type) and hint in SCALARS:
        return Hint(scalars=(hint,))
    if is_dataclass(hint):
        return Hint(schema=hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        # Values are compared as typed in the file, before any conversion.
        return Hint(words=tuple(str(a) for a in arguments))
    if origin is tuple:
        if arguments[-1] is Ellipsis:
            return Hint(items=(read(arguments[0]),))
        return Hint(items=tuple(read(a) for a in arguments), fixed=True)
    if origin is Mapping:
        return Hint(values=read(arguments[1]))
    if origin in {typing.Union, types.UnionType}:
        return _union([read(a) for a in arguments if a is not type(None)], nothing=type(None) in arguments)
    raise TypeError(f"no file can express {hint}")


def _union(members: list[Hint], *, nothing: bool) -> Hint:
    listed = next((m for m in members if m.items), Hint())
    return Hint(
        nothing=nothing,
        words=tuple(w for m in members for w in m.words),
        scalars=tuple(s for m in members for s in m.scalars),
        items=listed.items,
        fixed=listed.fixed,
        values=next((m.values for m in members if m.values), None),
        schema=next((m.schema for m in members if m.schema), None),
        anything=any(m.anything for m in members),
    )


def describe(hint: Hint, key: Key | None = None) -> str:
    """The allowed values as text: `a whole number from 1 up, or `auto``."""
    if key is not None and key.expected:
        return key.expected
    forms = [_scalar_words(s, key) for s in hint.scalars]
    if hint.items:
        forms.append("a list")
    if hint.schema or hint.values:
        forms.append("a mapping")
    forms += [f"`{word}`" for word in hint.words]
    if len(forms) < 2:
        return "".join(forms) or "a value"
    return ", ".join(forms[:-1]) + (" or " if len(forms) == 2 and not hint.scalars else ", or ") + forms[-1]


def _scalar_words(scalar: type, key: Key | None) -> str:
    if issubclass(scalar, Bytes | Duration):
        return scalar.expected
    if scalar is int:
        least = key.minimum if key else None
        return "a whole number" if least is None else f"a whole number from {least} up"
    return {str: "text", bool: "`true` or `false`", float: "a number"}[scalar]
