"""Check the shape of a JSON value from a node: its output may also contain what other programs print."""

from __future__ import annotations

from typing import Any

LARGEST = 10**18
"""Upper limit of numbers: counts of bytes, cores and devices are lower."""


def fits(value: Any, shape: Any) -> bool:
    """True if a value has a shape.

    A shape is a type; None; a tuple of alternative shapes; a list with the shape of its elements; a dictionary of names and
    shapes, in which `str` stands for any name, and a name that ends with `?` may be missing. Numbers are integers from 0 to
    below LARGEST.
    """
    if isinstance(shape, tuple):
        return any(fits(value, alternative) for alternative in shape)
    if isinstance(shape, list):
        return isinstance(value, list) and all(fits(element, shape[0]) for element in value)
    if isinstance(shape, dict):
        return isinstance(value, dict) and _names_fit(value, shape)
    if shape is int:
        return type(value) is int and 0 <= value < LARGEST
    return value is None if shape is None else type(value) is shape


def _names_fit(value: dict[str, Any], shape: dict[Any, Any]) -> bool:
    if str in shape:
        return all(fits(member, shape[str]) for member in value.values())
    return all(
        fits(value[name], member) if (name := key.removesuffix("?")) in value else key.endswith("?")
        for key, member in shape.items()
    )
