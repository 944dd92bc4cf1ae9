"""Whether a JSON value has the shape that its reader goes by: nodes and programs print values, and so may anybody."""

from __future__ import annotations

from typing import Any

LARGEST = 10**18
"""What no count of bytes, cores or devices reaches."""


def fits(value: Any, shape: Any) -> bool:
    """True if a value has a shape.

    A shape is a type; None; a tuple of shapes, one of which fits; a list of one, of which there may be any number; a
    dictionary of names, or of `str`, which stands for all names. A name that ends with `?` may be missing. Numbers are
    whole, not negative and below LARGEST.
    """
    if isinstance(shape, tuple):
        return any(fits(value, one) for one in shape)
    if isinstance(shape, list):
        return isinstance(value, list) and all(fits(one, shape[0]) for one in value)
    if isinstance(shape, dict):
        return isinstance(value, dict) and _names_fit(value, shape)
    if shape is int:
        return type(value) is int and 0 <= value < LARGEST
    return value is None if shape is None else type(value) is shape


def _names_fit(value: dict[str, Any], shape: dict[Any, Any]) -> bool:
    if str in shape:
        return all(fits(one, shape[str]) for one in value.values())
    return all(
        fits(value[name], one) if (name := key.removesuffix("?")) in value else key.endswith("?")
        for key, one in shape.items()
    )
