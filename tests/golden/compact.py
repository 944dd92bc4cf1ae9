"""A plan as text that a person can review: one record a line, and nothing that has its default."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from dlrun.model.json_codec import to_plain
from dlrun.model.plan import Plan
from dlrun.model.text import Shell, Text

_WIDTH = 240
"""Characters of a line; a record that is longer is broken into its fields."""


def compact(plan: Plan) -> str:
    """JSON text that `dlrun.model.json_codec.from_plain(Plan, …)` reads back as the same plan."""
    return _text(_without_defaults(plan), "") + "\n"


def _without_defaults(value: Any) -> Any:
    """As `to_plain`, without the fields that have their default."""
    if dataclasses.is_dataclass(value) and not isinstance(value, Shell | Text):
        return {
            field.name: _without_defaults(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if not _has_default(field, getattr(value, field.name))
        }
    if isinstance(value, tuple | list):
        return [_without_defaults(item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): _without_defaults(item) for name, item in value.items()}
    return to_plain(value)


def _has_default(field: dataclasses.Field[Any], value: Any) -> bool:
    if field.default is not dataclasses.MISSING:
        return bool(value == field.default) and type(value) is type(field.default)
    return field.default_factory is not dataclasses.MISSING and bool(value == field.default_factory())


def _text(data: Any, margin: str) -> str:
    line = json.dumps(data, ensure_ascii=False)
    if (len(margin) + len(line) <= _WIDTH and margin) or not isinstance(data, dict | list) or not data:
        return line
    inner = margin + " "
    if isinstance(data, dict):
        items = [f"{inner}{json.dumps(name)}: {_text(item, inner)}" for name, item in data.items()]
        return "{\n" + ",\n".join(items) + f"\n{margin}}}"
    return "[\n" + ",\n".join(inner + _text(item, inner) for item in data) + f"\n{margin}]"
