"""Frozen dataclasses that are quick to define.

`dataclasses.dataclass` compiles six functions for every class and makes an object of every field, which takes 0.8 ms at
each start of dlrun; for the 140 classes of a dry run, that is 0.1 s. Records share one set of functions, and their
fields are made on first use. Otherwise they are dataclasses (`fields`, `replace`, `asdict`), for type checkers too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, FrozenInstanceError
from functools import partial
from typing import TYPE_CHECKING, Any

__all__ = ["field_names", "is_dataclass", "record"]

if TYPE_CHECKING:
    from dataclasses import dataclass as record
else:

    def record(*, frozen: bool, slots: bool, kw_only: bool = False) -> Callable[[type], type]:
        """`@dataclass(frozen=True, slots=True)`, with or without `kw_only=True`."""
        if not (frozen and slots):
            raise TypeError("records are frozen and slotted")
        return partial(_define, kw_only=kw_only)


def _define(cls: type, *, kw_only: bool) -> type:
    inherited = getattr(cls, "__layout__", ())
    layout = {name: (default, factory) for name, default, factory in inherited}
    values = {}
    for name, kind in cls.__annotations__.items():
        if "ClassVar" in str(kind):
            continue
        values[name] = declared = cls.__dict__.get(name, MISSING)
        made = (
            (declared.default, declared.default_factory)
            if isinstance(declared, Field)
            else (declared, MISSING)
        )
        if made[0].__class__.__hash__ is None:  # as dataclasses know what may change
            shared = type(made[0])
            raise ValueError(f"mutable default {shared} for field {name} is not allowed: use default_factory")
        layout[name] = made
    left_out = {"__dict__", "__weakref__", *values}
    namespace = {name: value for name, value in cls.__dict__.items() if name not in left_out}
    taken = {name for name, _, _ in inherited}
    namespace |= {
        "__qualname__": cls.__qualname__,
        "__slots__": tuple(name for name in values if name not in taken),
        "__layout__": tuple((name, *made) for name, made in layout.items()),
        "__match_args__": () if kw_only else tuple(layout),
        "__signature__": _Signature(),
        "__dataclass_fields__": _Made(values),
        "__dataclass_params__": _Made(values),
    }
    for name, method in _METHODS.items():
        namespace.setdefault(name, method)
    return type(cls)(cls.__name__, cls.__bases__, namespace)


class _Made:
    """What `dataclasses` knows of a record, made when it is requested; values: those of its own fields in its definition."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def __set_name__(self, owner: Any, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, instance: object, owner: Any) -> Any:
        plain = {name: value for name, value in self._values.items() if value is not MISSING}
        # Without a docstring dataclasses make one of the signature, and the text of each type they search for `ClassVar`.
        body = {"__doc__": self._name, "__annotations__": dict.fromkeys(self._values, object)}
        bases = self._owner.__bases__ if hasattr(self._owner.__base__, "__layout__") else ()
        kw_only = not self._owner.__match_args__
        make = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)
        made = getattr(make(type(self._owner.__name__, bases, {**body, **plain})), self._name)
        if self._name == "__dataclass_fields__":
            for name in self._values:
                made[name].type = self._owner.__annotations__[name]
        setattr(self._owner, self._name, made)
        return made


class _Signature:
    """The signature of a record for `inspect.signature`, made when it is requested."""

    def __get__(self, instance: object, owner: Any) -> Any:
        from inspect import Parameter, Signature  # noqa: PLC0415

        def parameter(name: str, default: Any, factory: Any) -> Parameter:
            shown = factory() if factory is not MISSING else default
            kind = Parameter.POSITIONAL_OR_KEYWORD if owner.__match_args__ else Parameter.KEYWORD_ONLY
            return Parameter(name, kind, default=Parameter.empty if shown is MISSING else shown)

        return Signature([parameter(*part) for part in owner.__layout__])


def is_dataclass(kind: object) -> bool:
    """Whether a class is a record or another dataclass; the fields of a record are not made for it."""
    return isinstance(kind, type) and (hasattr(kind, "__layout__") or dataclasses.is_dataclass(kind))


def field_names(kind: Any) -> tuple[str, ...]:
    """The names of the fields of a class of which `is_dataclass` is true, in order."""
    layout = getattr(kind, "__layout__", None)
    if layout is None:
        return tuple(field.name for field in dataclasses.fields(kind))
    return tuple(name for name, _, _ in layout)


def _init(self: Any, /, *positional: Any, **values: Any) -> None:
    put, missing = object.__setattr__, []
    if positional:
        named = dict(zip(self.__match_args__, positional, strict=False))
        if len(named) < len(positional) or not named.keys().isdisjoint(values):
            type(self).__signature__.bind(*positional, **values)  # raises the TypeError
        values |= named
    for name, default, factory in self.__layout__:
        if name in values:
            put(self, name, values.pop(name))
        elif default is not MISSING:
            put(self, name, default)
        elif factory is not MISSING:
            put(self, name, factory())
        else:
            missing.append(name)
    if missing or values:
        raise TypeError(f"{type(self).__name__}.__init__() {_complaint(self, missing, list(values))}")


def _complaint(made: Any, missing: list[str], unexpected: list[str]) -> str:
    """The message for invalid arguments, as Python's own."""
    if unexpected:
        return f"got an unexpected keyword argument '{unexpected[0]}'"
    names = [f"'{name}'" for name in missing]
    last = f"{',' if len(names) > 2 else ''} and {names[-1]}" if len(names) > 1 else names[0]
    listed = f"{', '.join(names[:-1])}{last}"
    kind = "positional" if made.__match_args__ else "keyword-only"
    return f"missing {len(names)} required {kind} argument{'s' if len(names) > 1 else ''}: {listed}"


def _values(self: Any) -> tuple[Any, ...]:
    return tuple(getattr(self, name) for name, _, _ in self.__layout__)


def _repr(self: Any) -> str:
    shown = (f"{name}={getattr(self, name)!r}" for name, _, _ in self.__layout__)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _eq(self: Any, other: object) -> bool:
    return _values(self) == _values(other) if other.__class__ is self.__class__ else NotImplemented


def _hash(self: Any) -> int:
    return hash(_values(self))


def _setattr(self: Any, name: str, value: Any) -> None:  # noqa: ARG001 - as Python calls it
    raise FrozenInstanceError(f"cannot assign to field '{name}'")


def _delattr(self: Any, name: str) -> None:  # noqa: ARG001
    raise FrozenInstanceError(f"cannot delete field '{name}'")


def _replace(self: Any, /, **changes: Any) -> Any:
    """For `copy.replace` of Python 3.13."""
    return dataclasses.replace(self, **changes)


# The default pickling of classes with slots assigns attributes, which `_setattr` forbids.
def _getstate(self: Any) -> tuple[Any, ...]:
    return _values(self)


def _setstate(self: Any, state: Iterable[Any]) -> None:
    for (name, _, _), value in zip(self.__layout__, state, strict=True):
        object.__setattr__(self, name, value)


_METHODS = {
    f"__{method.__name__[1:]}__": method
    for method in (_init, _repr, _eq, _hash, _setattr, _delattr, _replace, _getstate, _setstate)
}
