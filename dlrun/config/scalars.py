"""Strict conversion of texts to numbers, booleans, sizes and times; errors contain the correction."""

from __future__ import annotations

import math
import re
from typing import Any

from dlrun.config.nodes import ScalarNode
from dlrun.model.text import lazy_pattern
from dlrun.model.units import Bytes, Duration

# 18 digits fit into 64 bits; `int` of a text of unlimited length takes quadratic time.
_INT = re.compile(r"[+-]?(0|[1-9][0-9]{0,17})")
_FLOAT = lazy_pattern(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_BARE = lazy_pattern(r"[0-9]+(\.[0-9]+)?")
_TRUE = frozenset({"yes", "on", "y", "1", "true"})
_FALSE = frozenset({"no", "off", "n", "0", "false"})


class UnfitError(ValueError):
    """A text that a type does not accept: `message` replaces the default message, `help` is the correction."""

    def __init__(self, *, help: str = "", message: str = "") -> None:
        super().__init__(help)
        self.help = help
        self.message = message


def read(scalar: type, node: ScalarNode) -> Any:
    """The value of a text as `scalar`; raises UnfitError."""
    if scalar is str:
        return node.text
    if issubclass(scalar, Bytes | Duration):
        return _quantity(scalar, node.text)
    if not node.plain:
        raise UnfitError(help="remove the quotes")
    return {int: _int, float: _float, bool: _bool}[scalar](node.text)


def _int(text: str) -> int:
    if _INT.fullmatch(text):
        return int(text)
    digits = text.replace("_", "").replace(",", "")
    if re.fullmatch(r"0+[0-9]{1,17}", digits) or (digits != text and _INT.fullmatch(digits)):
        raise UnfitError(help=f"write `{int(digits)}`")
    if _FLOAT.fullmatch(text) and math.isfinite(number := float(text)) and number == int(number) < 10**15:
        raise UnfitError(help=f"write `{int(number)}`")
    raise UnfitError


def _float(text: str) -> float:
    if _FLOAT.fullmatch(text) and math.isfinite(number := float(text)):
        return number
    raise UnfitError


def _bool(text: str) -> bool:
    if text in {"true", "false"}:
        return text == "true"
    # `yes` is a boolean in YAML 1.1 and a text in YAML 1.2, so neither is assumed.
    if text.lower() in _TRUE | _FALSE:
        raise UnfitError(help=f"write `{'true' if text.lower() in _TRUE else 'false'}`")
    raise UnfitError


def _quantity(scalar: type[Bytes | Duration], text: str) -> Bytes | Duration:
    try:
        return scalar.parse(text)
    except ValueError:
        pass
    if _BARE.fullmatch(text):
        if scalar is Duration:
            hint = f"write `{text}m` for minutes, `{text}h` for hours or `{text}s` for seconds"
        else:
            hint = f"write `{text}GB`, `{text}GiB` or `{text}MiB`"
        raise UnfitError(message="has no unit", help=hint)
    if scalar is Duration and re.fullmatch(r"[0-9]{1,3}:[0-9]{2}", text):
        first, second = text.split(":")
        raise UnfitError(
            message="could be minutes or hours",
            help=f"write `{first}:{second}:00` or `00:{first:>02}:{second}`",
        )
    raise UnfitError
