"""Frozen dataclasses that are quick to define.

`dataclasses.dataclass` compiles six functions for every class, which takes 0.8 ms at each start of dlrun; for the sixty
classes of the model, that is a quarter of a dry run. Records share one set of functions. Otherwise they are dataclasses
(`fields`, `replace`, `asdict`), for type checkers too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import MISSING, FrozenInstanceError
from typing import TYPE_CHECKING, Any

__all__ = ["record"]

if TYPE_CHECKING:
    from dataclasses import dataclass as record
else:

    def record(*, frozen: bool, slots: bool, kw_only: bool) -> Callable[[type], type]:
        """`@dataclass(frozen=True, slots=True, kw_only=True)`, the only kind there is."""
        if not (frozen and slots and kw_only):
            raise TypeError("records are frozen, slotted and keyword-only")
        return _define


def _define(cls: type) -> type:
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True, kw_only=True)(cls)
    made.__layout__ = tuple((f.name, f.default, f.default_factory) for f in dataclasses.fields(made))
    for method in (_init, _repr, _eq, _hash, _setattr, _delattr, _getstate, _setstate):
        name = f"__{method.__name__[1:]}__"
        if name not in cls.__dict__:
            setattr(made, name, method)
    made.__signature__ = _Signature()
    return made  # type: ignore[no-any-return]


class _Signature:
    """The signature of a record for `inspect.signature`, made when it is requested."""

    def __get__(self, instance: object, owner: Any) -> Any:
        from inspect import Parameter, Signature  # noqa: PLC0415

        def parameter(name: str, default: Any, factory: Any) -> Parameter:
            shown = factory() if factory is not MISSING else default
            return Parameter(
                name, Parameter.KEYWORD_ONLY, default=Parameter.empty if shown is MISSING else shown
            )

        return Signature([parameter(*part) for part in owner.__layout__])


def _init(self: Any, **values: Any) -> None:
    put, missing = object.__setattr__, []
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
        raise TypeError(f"{type(self).__name__}.__init__() {_complaint(missing, list(values))}")


def _complaint(missing: list[str], unexpected: list[str]) -> str:
    """The message for invalid arguments, as Python's own."""
    if unexpected:
        return f"got an unexpected keyword argument '{unexpected[0]}'"
    names = [f"'{name}'" for name in missing]
    last = f"{',' if len(names) > 2 else ''} and {names[-1]}" if len(names) > 1 else names[0]
    listed = f"{', '.join(names[:-1])}{last}"
    return f"missing {len(names)} required keyword-only argument{'s' if len(names) > 1 else ''}: {listed}"


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


# The default pickling of classes with slots assigns attributes, which `_setattr` forbids.
def _getstate(self: Any) -> tuple[Any, ...]:
    return _values(self)


def _setstate(self: Any, state: Iterable[Any]) -> None:
    for (name, _, _), value in zip(self.__layout__, state, strict=True):
        object.__setattr__(self, name, value)
