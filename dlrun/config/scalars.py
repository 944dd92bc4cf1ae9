"""Strict conversion of texts to numbers, booleans, sizes and times; errors contain the correction."""

from __future__ import annotations

import math
import re
from typing import Any

from dlrun.config.nodes import ScalarNode
from dlrun.model.text import lazy_pattern
from dlrun.model.units import Bytes, Duration

# 18 digits fit into 64 bits; `int` of a text of unlimited length takes quadratic time.
_INT = lazy_pattern(r"[+-]?(0|[1-9][0-9]{0,17})")
_FLOAT = lazy_pattern(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_BARE = lazy_pattern(r"[0-9]+(\.[0-9]+)?")
_TRUE = frozenset({"yes", "on", "y", "1", "true"})
_FALSE = frozenset({"no", "off", "n", "0", "false"})
_NUMBERS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen",
    "fourteen", "fifteen", "sixteen",
)  # fmt: skip
_TIME_WORDS = lazy_pattern(
    r"([0-9]+(?:\.[0-9]+)?)\s*(d|h|m|s)(?:ays?|(?:ou)?rs?|in(?:ute)?s?|ec(?:ond)?s?)?\.?(?:\s*(?:,|and)?\s*|$)",
    re.IGNORECASE,
)
"""A number with a unit in any spelling: `4 hours`, `30 min.`, `90 secs`."""
_ISO_TIME = lazy_pattern(r"P(?:([0-9]+)D)?(?:T(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+)S)?)?", re.IGNORECASE)
"""A time as ISO 8601 writes it: `PT4H30M`."""
_SIZE_WORDS = lazy_pattern(
    r"([0-9]+(?:\.[0-9]+)?)\s*(K|M|G|T)(?:i|igs?|ibi)?(?:il|eg|ig|er)?(?:[ao]s?)?\s*(?:-?bytes?)?",
    re.IGNORECASE,
)
"""A size in words: `64 gigs`, `1.5 terabytes`."""
_ENDLESS = frozenset(
    {"unlimited", "infinite", "inf", "infinity", "max", "none", "forever", "-1", "indefinite"}
)


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
    convert = {int: _int, float: _float, bool: _bool}[scalar]
    if node.plain:
        return convert(node.text)
    try:
        convert(node.text)
    except UnfitError as unfit:
        # Without its quotes the text would be refused again: the help names what is accepted.
        raise UnfitError(help=f"{unfit.help}, without quotes" if unfit.help else "") from None
    raise UnfitError(help="remove the quotes")


def _int(text: str) -> int:
    if _INT.fullmatch(text):
        return int(text)
    digits = text.replace("_", "").replace(",", "")
    if re.fullmatch(r"0+[0-9]{1,17}", digits) or (digits != text and _INT.fullmatch(digits)):
        raise UnfitError(help=f"write `{int(digits)}`")
    if _FLOAT.fullmatch(text) and math.isfinite(number := float(text)) and number == int(number) < 10**15:
        raise UnfitError(help=f"write `{int(number)}`")
    if text.lower() in _NUMBERS:
        raise UnfitError(help=f"write `{_NUMBERS.index(text.lower())}`")
    if text.lower() in (_TRUE | _FALSE) - {"0", "1"}:
        raise UnfitError(help=f"write a number: `{int(text.lower() in _TRUE)}` for `{text}`")
    if counted := re.fullmatch(r"([1-9][0-9]{0,17})\s*[A-Za-z]+", text):
        raise UnfitError(help=f"write `{counted[1]}`, without a unit")
    if several := re.fullmatch(r"([1-9][0-9]{0,17})\s*(?:-|\.\.+|:|,|to)\s*([1-9][0-9]{0,17})", text):
        raise UnfitError(help=f"write one number, such as `{several[2]}`")
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
    if (inner := text.strip("'\" ")) != text:
        try:
            scalar.parse(inner)
        except ValueError:
            pass
        else:
            raise UnfitError(help=f"write `{inner}`, without quotes")
    if scalar is Duration:
        raise UnfitError(help=_time_help(text))
    if words := _SIZE_WORDS.fullmatch(text):
        raise UnfitError(help=f"write `{words[1]}{words[2].upper()}iB`")
    raise UnfitError


def _time_help(text: str) -> str:
    """The way out for a time that cannot be read; empty if it resembles none."""
    if text.lower() in _ENDLESS:
        return "a job ends at its walltime: write the longest that you need, such as `24h`"
    if text.startswith("-"):
        return "it must be more than zero"
    if (iso := _ISO_TIME.fullmatch(text)) is not None and any(iso.groups()):
        numbers = zip(iso.groups(), "dhms", strict=True)
        return f"write `{''.join(number + unit for number, unit in numbers if number)}`"
    parts = _TIME_WORDS.findall(text)
    if parts and not _TIME_WORDS.sub("", text).strip():
        return f"write `{''.join(number + unit.lower() for number, unit in parts)}`"
    return ""
