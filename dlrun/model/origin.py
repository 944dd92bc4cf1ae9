"""Origins of values: every value can be traced to a line, a flag or a rule."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from dlrun.model.record import record


class Layer(StrEnum):
    """The sources of values, weakest first."""

    BUILT_IN = "built-in"
    SITE = "site profile"
    USER = "user settings"
    SPEC = "spec"
    ENVIRONMENT = "environment"
    FLAG = "flag"


@record(frozen=True, slots=True, kw_only=True)
class Origin:
    """The place of a value: a file with line and column (from 1), a variable or a flag."""

    layer: Layer
    name: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        """`spec.yaml:5:3` for files, `--set resources.nodes=8` and the like for the rest."""
        return f"{self.name}:{self.line}:{self.column}" if self.line else self.name


BUILT_IN = Origin(layer=Layer.BUILT_IN, name="dlrun's default")


@record(frozen=True, slots=True, kw_only=True)
class Decision:
    """A derived value, with its rule, its reason, and the place of its input."""

    key: str
    value: Any
    rule: str
    because: str
    origin: Origin | None = None
