"""Frozen dataclasses to plain JSON data and back without loss, by their type hints."""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from dlrun.model.record import field_names, is_dataclass
from dlrun.model.text import Shell, Text

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """Dataclasses become objects, tuples lists; text without expansions a string, else a list of pieces."""
    match value:
        case Text():
            literal = value.literal
            return literal if literal is not None else [to_plain(part) for part in value.parts]
        case Shell():
            return {"shell": value.code}
        case StrEnum():
            return value.value
        case Path():
            return str(value)
        case Mapping():
            return {str(k): to_plain(v) for k, v in value.items()}
        case tuple() | list():
            return [to_plain(item) for item in value]
        case _:
            pass
    if is_dataclass(kind := type(value)):
        return {name: to_plain(getattr(value, name)) for name in field_names(kind)}
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else value


def from_plain(kind: type[T], data: Any) -> T:
    """Rebuild a value of `kind`; raises ValueError with the key for data of another shape."""
    return typing.cast("T", _build(kind, data, ""))


def _build(kind: Any, data: Any, path: str) -> Any:
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _union(kind, data, path)
    if origin is typing.Literal:
        if data not in typing.get_args(kind):
            raise ValueError(f"{path}: `{data}` is not one of {', '.join(map(repr, typing.get_args(kind)))}")
        return data
    if origin is tuple:
        return _tuple(typing.get_args(kind), data, path)
    if origin is not None and issubclass(origin, Mapping):
        item = typing.get_args(kind)[1]
        _expect(dict, data, path)
        return {_text(k, path): _build(item, v, f"{path}.{k}") for k, v in data.items()}
    return _leaf(kind, data, path)


def _leaf(kind: Any, data: Any, path: str) -> Any:
    if kind is Any:
        return data
    if kind is Text:
        return Text.of(*(_piece(p, path) for p in (data if isinstance(data, list) else [data])))
    if kind is Shell:
        return _piece(data, path, want=Shell)
    if kind is Path:
        _expect(str, data, path)
        return Path(_text(data, path))
    if dataclasses.is_dataclass(kind):
        return _object(kind, data, path)
    if kind is type(None):
        _expect(type(None), data, path)
        return None
    # `bool` comes first, because it is a subclass of `int`.
    base = next(b for b in (bool, int, float, str) if issubclass(kind, b))
    if base is float and isinstance(data, int) and not isinstance(data, bool):
        try:
            return float(data)
        except OverflowError:
            raise ValueError(f"{path}: {data!r:.60} is too large") from None
    _expect(base, data, path)
    if base is str:
        _text(data, path)
    return data if kind is base else kind(data)


def _object(kind: Any, data: Any, path: str) -> Any:
    _expect(dict, data, path)
    hints = _hints(kind)
    # Null values of unknown keys are allowed: an earlier version may have written keys that were removed since.
    unknown = {name for name, value in data.items() if value is not None} - set(hints)
    if unknown:
        raise ValueError(f"{path}: unknown key `{min(unknown)}`")
    values = {
        name: _build(hints[name], value, f"{path}.{name}") for name, value in data.items() if name in hints
    }
    for field in dataclasses.fields(kind):
        if field.metadata and field.name in values:
            _fits(values[field.name], field.metadata, f"{path}.{field.name}")
    try:
        return kind(**values)
    except TypeError as error:
        absent = [
            field.name
            for field in dataclasses.fields(kind)
            if field.name not in data
            and field.default is dataclasses.MISSING
            and field.default_factory is dataclasses.MISSING
        ]
        names = ", ".join(f"`{name}`" for name in absent[:3]) + (", …" if len(absent) > 3 else "")
        raise ValueError(f"{path or 'the document'}: {f'without {names}' if absent else error}") from None


def _union(kind: Any, data: Any, path: str) -> Any:
    # The first problem is reported: in `X | None`, that of None would be useless.
    problem = ""
    for choice in typing.get_args(kind):
        try:
            return _build(choice, data, path)
        except ValueError as error:
            problem = problem or str(error)
    raise ValueError(problem)


def _tuple(arguments: tuple[Any, ...], data: Any, path: str) -> tuple[Any, ...]:
    if not isinstance(data, tuple):  # of a document of this process; JSON has lists
        _expect(list, data, path)
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(_build(arguments[0], item, f"{path}[{i}]") for i, item in enumerate(data))
    if len(data) != len(arguments):
        raise ValueError(f"{path}: {len(arguments)} items expected, {len(data)} found")
    return tuple(
        _build(a, item, f"{path}[{i}]") for i, (a, item) in enumerate(zip(arguments, data, strict=True))
    )


def _piece(data: Any, path: str, want: type | None = None) -> Any:
    if isinstance(data, dict) and set(data) == {"shell"} and isinstance(data["shell"], str):
        return Shell(_text(data["shell"], path))
    if want is None:
        _expect(str, data, path)
        return _text(data, path)
    raise ValueError(f"{path}: a shell expansion expected")


def _expect(kind: type, data: Any, path: str) -> None:
    if not isinstance(data, kind) or (kind is int and isinstance(data, bool)):
        raise ValueError(f"{path or 'the document'}: {kind.__name__} expected, {type(data).__name__} found")


def _text(data: Any, path: str) -> Any:
    """Check that a text is valid in files and program arguments; raises ValueError."""
    if "\0" in data:
        raise ValueError(f"{path}: a NUL byte cannot be passed to a program")
    if not data.isascii():
        try:
            data.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise ValueError(f"{path}: half of a surrogate pair is not a character") from None
    return data


def _fits(value: Any, metadata: Mapping[str, Any], path: str) -> None:
    """Check a field against its declared bounds and pattern (`dlrun.model.keys`); raises ValueError."""
    if pattern := metadata.get("pattern"):
        texts = (
            value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple) else (value,)
        )
        for text in texts:
            if isinstance(text, str) and not re.fullmatch(pattern, text):
                raise ValueError(f"{path}: {text!r:.60} does not match {pattern}")
    if (names := metadata.get("names")) and isinstance(value, Mapping):
        for name in value:
            if not re.fullmatch(names, name):
                raise ValueError(f"{path}: the name {name!r:.60} does not match {names}")
    least, most = metadata.get("minimum"), metadata.get("maximum")
    counts = isinstance(value, int | float) and not isinstance(value, bool)
    # NaN is between no bounds.
    if counts and not ((least is None or value >= least) and (most is None or value <= most)):
        raise ValueError(f"{path}: {value!r:.60} is not between {least} and {most}")


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)
