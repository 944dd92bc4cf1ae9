"""Keys of specs and profiles by dotted path, with texts about them, for `dlrun keys` and the reference pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dlrun.config.hints import Hint, Key, describe, keys
from dlrun.model.nearest import nearest
from dlrun.model.problem import Problem
from dlrun.model.record import record
from dlrun.model.units import Bytes, Duration


@record(frozen=True, slots=True, kw_only=True)
class KeyPath:
    """The target of a path: a key (None at the top) and the dataclass of its mapping (None if it is not a mapping)."""

    path: str
    key: Key | None
    schema: type | None


class Nested(NamedTuple):
    """The dataclass of a key's value or of its items, and the suffix for it in a path (`.NAME`, `[]` or empty)."""

    schema: type | None
    suffix: str


def nested_schema(hint: Hint) -> Nested:
    """The mapping in a key's value, if it has one."""
    if hint.schema is not None:
        return Nested(hint.schema, "")
    if hint.values is not None:
        return Nested(hint.values.schema, ".NAME")
    if hint.items:
        return Nested(hint.items[0].schema, "[]")
    return Nested(None, "")


def accepted(key: Key) -> str:
    """The allowed values of a key, as text."""
    hint = key.hint
    if hint.anything or (hint.values is not None and hint.values.anything):
        return "anything" if hint.anything else "a mapping"
    if hint.values is not None and hint.values.schema is None:
        return f"a mapping of names to {describe(hint.values).replace('text', 'texts')}"
    return describe(hint, key)


def default(key: Key) -> str:
    """The default as YAML; `required` for required keys, empty for an empty default."""
    value = key.default
    if key.required:
        return "required"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Bytes | Duration | int | float | str) and value != "":
        return str(value)
    if isinstance(value, tuple) and value:
        return f"[{', '.join(map(str, value))}]"
    return ""


def find_key(schema: type, path: str, others: Mapping[str, type]) -> KeyPath | Problem:
    """The target of a dotted path, or a problem; `others` are further mappings at the top (the frameworks' options).

    Names chosen by the user may be omitted: `data.imagenet.source`, `data.source`.
    """
    place, named = KeyPath(path="", key=None, schema=schema), False
    for name in filter(None, path.split(".")):
        known = keys(place.schema) if place.schema is not None else {}
        if not place.path and name in others:
            place = KeyPath(path=name, key=None, schema=others[name])
        elif name in known:
            below = nested_schema(known[name].hint)
            place = KeyPath(path=f"{place.path}.{name}".lstrip("."), key=known[name], schema=below.schema)
            named = below.suffix == ".NAME"
            continue
        elif place.key is not None and named:
            place = KeyPath(path=f"{place.path}.{name}", key=place.key, schema=place.schema)
        else:
            return _unknown(
                place, name, [*known] if place.path else [*(k for k in known if k != "options"), *others]
            )
        named = False
    return place


def _unknown(place: KeyPath, name: str, known: list[str]) -> Problem:
    wanted = f"{place.path}.{name}".lstrip(".")
    near = nearest(name, known)
    hint = f"the nearest is `{f'{place.path}.{near}'.lstrip('.')}`; " if near else ""
    listing = f"dlrun keys {place.path}".rstrip()
    return Problem(message=f"there is no key `{wanted}`", help=f"{hint}`{listing}` lists the keys there")
