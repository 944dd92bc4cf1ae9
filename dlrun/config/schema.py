"""JSON Schema (draft 2020-12) of a spec and a site profile, from the dataclasses that decode them.

The schema is for editors. They convert values by YAML 1.2, in which `3.10` is a number and `true` a boolean: a text may also
be a number or a boolean.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dlrun.config.hints import Hint, Key, keys
from dlrun.model.keys import MOST
from dlrun.model.program import Role, Secret
from dlrun.model.site import FabricSite, LauncherSite, SchedulerSite, Site
from dlrun.model.spec import Spec
from dlrun.model.units import Bytes, Duration

_PARTIAL = (SchedulerSite, LauncherSite, FabricSite)
_INHERITED = {"scheduler": "type", "launcher": "name", "fabric": "name"}
"""Part of a profile -> its required key, which a profile with `extends:` may inherit."""

_DIALECT = "https://json-schema.org/draft/2020-12/schema"

_SIZE = r"^\s*\d{1,15}(\.\d{1,15})?\s*([KMGTPkmgtp][Ii]?[Bb]?|[Bb])\s*$"
_SPAN = r"(\d{1,9}(\.\d{1,9})?\s*([dD]|[hH]|[mM]([iI][nN])?|[sS])\s*)+"
_TIME = rf"^\s*((\d{{1,9}}-)?\d{{1,9}}:[0-5]\d:[0-5]\d|{_SPAN})\s*$"

_SCALARS: Mapping[type, Mapping[str, Any]] = {
    str: {"type": ["string", "number", "boolean"]},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    Bytes: {"type": "string", "pattern": _SIZE},
    Duration: {"type": "string", "pattern": _TIME},
}


def spec_schema(options: Mapping[str, type]) -> dict[str, Any]:
    """The schema of a spec; `options` are the option dataclasses of all frameworks, by name."""
    schemas = _Schemas()
    top = schemas.mapping(Spec)
    del top["properties"]["options"]  # they are under the framework's name
    role = schemas.definitions[f"program.{Role.__name__}"]
    default = keys(Spec)["framework"].default
    for name, dataclass in sorted(options.items()):
        top["properties"][name] = role["properties"][name] = {
            "description": f"options of the framework {name}",
            **schemas.either([schemas.reference(dataclass)], nothing=_may_be_empty(dataclass)),
        }
    top["allOf"] = [_only_with(name, default) for name in sorted(options)]
    return _document("dlrun training spec", top, schemas)


def site_schema() -> dict[str, Any]:
    """The schema of a site profile."""
    schemas = _Schemas()
    return _document("dlrun site profile", schemas.mapping(Site), schemas)


def _document(title: str, top: dict[str, Any], schemas: _Schemas) -> dict[str, Any]:
    return {"$schema": _DIALECT, "title": title, **top, "$defs": dict(sorted(schemas.definitions.items()))}


def _only_with(name: str, default: str) -> dict[str, Any]:
    """The condition that a framework's options are only valid with that framework."""
    # A spec without `framework:` has the default one.
    needs: dict[str, Any] = {"properties": {"framework": {"const": name}}}
    if name != default:
        needs["required"] = ["framework"]
    return {"if": {"required": [name]}, "then": needs}


class _Schemas:
    """Schemas of hints; nested dataclasses are collected in `definitions`, once each."""

    def __init__(self) -> None:
        self.definitions: dict[str, Any] = {}

    def mapping(self, dataclass: type) -> dict[str, Any]:
        """The object that a dataclass is decoded from."""
        known = keys(dataclass)
        schema: dict[str, Any] = {
            "type": "object",
            "description": (dataclass.__doc__ or "").split("\n\n")[0].replace("\n", " ").strip(),
            "properties": {key.name: self.key(key) for key in known.values()},
            "additionalProperties": False,
        }
        if others := getattr(dataclass, "OTHERS", None):
            schema |= self._others(known[others])
        required = [key.name for key in known.values() if key.required]
        if dataclass is Site:
            whole = {part: {"required": [name]} for part, name in _INHERITED.items()}
            schema |= {
                "required": ["name"],
                "if": {"not": {"required": ["extends"]}},
                "then": {"required": required, "properties": whole},
            }
        elif dataclass in (Spec, Role):
            either = [{"required": ["command"]}, {"required": ["run"]}]
            either += [{"required": ["roles"]}] if dataclass is Spec else []
            schema |= {"required": [name for name in required if name != "command"], "oneOf": either}
        elif required and dataclass not in _PARTIAL:
            schema["required"] = required
        if dataclass is Secret:
            schema |= {"minProperties": 1, "maxProperties": 1}
        return schema

    def key(self, key: Key) -> dict[str, Any]:
        """The value of one key, with its documentation and default."""
        schema = {"description": key.doc, **self.hint(key.hint, key)}
        if isinstance(key.default, Bytes | Duration):
            schema["default"] = str(key.default)
        elif isinstance(key.default, str | int | float):
            schema["default"] = key.default
        return schema

    def hint(self, hint: Hint, key: Key) -> dict[str, Any]:
        """The schema of a value."""
        if hint.anything:
            return {}
        forms: list[dict[str, Any]] = [_scalar(scalar, key) for scalar in hint.scalars]
        if hint.words:
            forms.append({"enum": list(hint.words)})
        nothing = hint.nothing
        if hint.items:
            forms += self._list(hint, key)
            nothing = nothing or not (hint.fixed or key.minimum)
        if hint.values is not None:
            forms.append(self._named(hint.values, key))
            nothing = True
        if hint.schema is not None:
            forms.append(self.reference(hint.schema))
            nothing = nothing or _may_be_empty(hint.schema)
            if hasattr(hint.schema, "from_scalar"):
                forms.append(dict(_SCALARS[str]))
        return self.either(forms, nothing=nothing)

    def either(self, forms: list[dict[str, Any]], *, nothing: bool) -> dict[str, Any]:
        """One of several forms; `nothing` adds an empty value."""
        forms = [*forms, {"type": "null"}] if nothing else forms
        return forms[0] if len(forms) == 1 else {"anyOf": forms}

    def reference(self, dataclass: type) -> dict[str, Any]:
        """A nested dataclass, defined on first use."""
        name = f"{dataclass.__module__.rpartition('.')[2]}.{dataclass.__name__}"
        if name not in self.definitions:
            self.definitions[name] = {}  # a dataclass may contain itself
            self.definitions[name] = self.mapping(dataclass)
        return {"$ref": f"#/$defs/{name}"}

    def _list(self, hint: Hint, key: Key) -> list[dict[str, Any]]:
        if hint.fixed:
            items = [self.hint(item, key) for item in hint.items]
            return [{"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}]
        item = self.hint(hint.items[0], key)
        forms: list[dict[str, Any]] = [{"type": "array", "items": item}]
        if key.minimum is not None:
            forms[0]["minItems"] = key.minimum
        if key.single != "never":
            forms.append(
                item
                if key.single == "text"
                else {"allOf": [item, {"pattern": r"^\S*$", "not": {"type": "object"}}]}
            )
        return forms

    def _others(self, key: Key) -> dict[str, Any]:
        """The schema of names that are not keys of a mapping and belong to its key `others`."""
        named = self._named(key.hint.values or Hint(anything=True), key)
        return {
            "additionalProperties": named["additionalProperties"],
            "propertyNames": named["propertyNames"],
        }

    def _named(self, hint: Hint, key: Key) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "object", "additionalProperties": self.hint(hint, key)}
        if key.names:
            schema["propertyNames"] = {"pattern": f"^(?:{key.names})$"}
        return schema


def _scalar(scalar: type, key: Key) -> dict[str, Any]:
    schema = dict(_SCALARS[scalar])
    if scalar is str and key.pattern:
        schema["pattern"] = f"^(?:{key.pattern})$"
    if scalar is int and key.minimum is not None:
        schema["minimum"] = key.minimum
    if scalar is int:
        schema["maximum"] = MOST if key.maximum is None else key.maximum
    return schema


def _may_be_empty(dataclass: type) -> bool:
    return not any(key.required for key in keys(dataclass).values())
